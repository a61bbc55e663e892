//===- Weights.h - Parameters, buffers and constants ------------*- C++ -*-===//
//
// The program states which weights are parameters. A parameter that needs no
// gradient is frozen, unless --trainable names it. Buffers are read, not
// trained. Integer and boolean buffers, float masks (zeros and large negative
// numbers) and tensors that were written as literals become constants if they
// are small and the file has their data.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_WEIGHTS_H
#define DPC_FRONTENDS_TORCH_WEIGHTS_H

#include "frontends/emit/Forward.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

/// The weights of a program after their roles are decided.
struct Weights {
  std::vector<WeightArgument> arguments;
  /// Values of the graph that are arguments, with the argument's name. Tied
  /// weights have several values and one argument.
  std::vector<std::pair<std::string, std::string>> bound;
  /// Values of the graph that are constants.
  std::vector<std::pair<std::string, Val>> constants;
  /// Names of the float weights among these constants.
  std::vector<std::string> constantNames;
};

/// Decides the role of every weight for which `isRead` holds. `isRead` takes
/// the name of the weight's value in the graph.
llvm::Expected<Weights>
placeWeights(const Archive &archive, const Program &program,
             llvm::function_ref<bool(llvm::StringRef)> isRead,
             const ImportOptions &options, mlir::MLIRContext *context);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_WEIGHTS_H
