//===- BodyText.h - Compares the bodies of kernels --------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dpc::codegen {

/// Returns a text that describes the body of a kernel: its ops, their operands,
/// and their attributes except those of dpc (phase, stage, ...). `describe`
/// prints the type of a value. Bodies with equal texts compute the same
/// function if `describe` prints different texts for different types.
std::string
bodyText(KernelOp op,
         llvm::function_ref<void(mlir::Value, llvm::raw_ostream &)> describe);

} // namespace dpc::codegen
