//===- KernelFunction.h - The functions around a kernel's code --*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_KERNELFUNCTION_H
#define DPC_CODEGEN_KERNEL_KERNELFUNCTION_H

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

/// A function without code of a kernel's operands, results, scratch memory (if
/// `hasScratch`) and scalars, in this order. Emits a diagnostic where a GPU
/// cannot take so many.
mlir::func::FuncOp createFunction(ElementEmitter &b, const std::string &name,
                                  bool hasScratch);

/// Makes `impl`'s arguments those that `b` emits accesses to.
void bindArguments(ElementEmitter &b, mlir::func::FuncOp impl, bool hasScratch);

/// Makes `impl` private and emits `name`, which calls it: `void (void *const
/// *buffers, const int64_t *scalars)`.
void emitEntry(KernelBuilder &b, mlir::func::FuncOp impl,
               const std::string &name);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNELFUNCTION_H
