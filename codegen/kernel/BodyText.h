//===- BodyText.h - When do kernels compute the same? -----------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_BODYTEXT_H
#define DPC_CODEGEN_KERNEL_BODYTEXT_H

#include "ir/Dialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dpc::codegen {

/// The operations of a kernel's body, their attributes and which value each
/// reads: equal for bodies that compute the same of values that `describe` says
/// are alike. Attributes of dpc itself (phase, stage, ..) do not count.
std::string
bodyText(KernelOp op,
         llvm::function_ref<void(mlir::Value, llvm::raw_ostream &)> describe);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_BODYTEXT_H
