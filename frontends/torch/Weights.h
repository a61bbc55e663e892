//===- Weights.h - Parameters, buffers and constants ------------*- C++ -*-===//
//
// The program states which weights are parameters and buffers. A parameter with
// requires_grad=False is frozen, unless --trainable names it. Some weights
// become constants if they are small, have data and never change: integer and
// boolean buffers, float masks (zeros and large negative numbers), and
// literals.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Forward.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

struct Weights {
  std::vector<WeightArgument> arguments;
  /// Values of the graph, each with the name of the argument that holds it.
  /// Tied weights are several values with the same argument.
  std::vector<std::pair<std::string, std::string>> bound;
  std::vector<std::pair<std::string, Val>> constants;
  /// Names of the float weights among the constants.
  std::vector<std::string> constantNames;
  /// Names in the archive's tables that are neither arguments nor aliases.
  std::vector<std::string> unread;
  /// Lines about parameters that are not read, and about --trainable.
  std::vector<std::string> remarks;
};

/// Decides the role of each weight that is read. `isRead` and `isChanged` take
/// the name of the weight's value in the graph. A weight that the program
/// changes is never a constant.
llvm::Expected<Weights>
placeWeights(const Archive &archive, const Program &program,
             llvm::function_ref<bool(llvm::StringRef)> isRead,
             llvm::function_ref<bool(llvm::StringRef)> isChanged,
             const ImportOptions &options, mlir::MLIRContext *context);

} // namespace dpc::frontend::pt2
