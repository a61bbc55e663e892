//===- BodyText.h - Compares the bodies of kernels --------------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_BODYTEXT_H
#define DPC_CODEGEN_KERNEL_BODYTEXT_H

#include "ir/Dialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dpc::codegen {

/// The text of a kernel's body: its operations, their attributes and which
/// values they read. Two bodies with equal texts compute the same function if
/// `describe` prints equal texts for equal types. Attributes of dpc (phase,
/// stage, ...) are left out.
std::string
bodyText(KernelOp op,
         llvm::function_ref<void(mlir::Value, llvm::raw_ostream &)> describe);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_BODYTEXT_H
