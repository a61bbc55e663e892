//===- RowKernels.h - Kernels around one op on whole rows -------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_ROWKERNELS_H
#define DPC_CODEGEN_KERNEL_ROWKERNELS_H

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

/// The op of a kernel body that needs whole rows, or null.
mlir::Operation *findRowOp(KernelOp kernel);
/// Whether a thread by itself does a row: the op goes through it in order.
bool isSerial(mlir::Operation *rowOp);

/// Emits all that is done to row `row`: results that the row op needs, the row
/// op, and results that need it.
void emitRow(ElementEmitter &b, mlir::Operation *rowOp,
             llvm::ArrayRef<Index> row);

/// True for reduce, sum_squares and embedding_grad.
bool isReduction(mlir::Operation *op);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_ROWKERNELS_H
