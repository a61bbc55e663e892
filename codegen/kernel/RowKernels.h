//===- RowKernels.h - Kernels with one op on whole rows ---------*- C++ -*-===//
#pragma once

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

/// Returns the op in the kernel that needs whole rows, or null.
Operation *findRowOp(KernelOp kernel);
/// Whether one thread must compute the whole row, because the op reads its
/// elements in order.
bool isSerial(Operation *rowOp);

/// Emits the results that the row op needs, the row op, and dependent results.
void emitRow(ElementEmitter &b, Operation *rowOp, ArrayRef<Index> row);

/// True for reduce, sum_squares and embedding_grad.
bool isReduction(Operation *op);

} // namespace dpc::codegen
