//===- KernelFunction.h - The functions around a kernel's code --*- C++ -*-===//
#pragma once

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

/// Creates a function without a body. Its arguments are the operands, results,
/// scratch memory (if `hasScratch`) and scalars of the kernel, in this order.
/// Emits a diagnostic if a GPU kernel cannot have so many arguments.
mlir::func::FuncOp createFunction(ElementEmitter &b, const std::string &name,
                                  bool hasScratch);

void bindArguments(ElementEmitter &b, mlir::func::FuncOp impl, bool hasScratch);

/// Makes `impl` private and emits the function `name`, which calls it: `void
/// (void *const *buffers, const int64_t *scalars)`.
void emitEntry(KernelBuilder &b, mlir::func::FuncOp impl,
               const std::string &name);

} // namespace dpc::codegen
