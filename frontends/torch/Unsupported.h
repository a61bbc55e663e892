//===- Unsupported.h - Operators without a converter ------------*- C++ -*-===//
#pragma once

#include "frontends/torch/Liveness.h"

namespace dpc::frontend::pt2 {

/// Returns one error that names every operator of the live nodes for which
/// `isSupported` is false: how many nodes call it, the first of them, its line
/// in the model's source, and what to write instead. Messages call the program
/// `file`.
llvm::Error checkSupported(const Program &program, const Liveness &live,
                           llvm::StringRef file,
                           llvm::function_ref<bool(const Node &)> isSupported);

} // namespace dpc::frontend::pt2
