//===- Weights.h - Parameters, buffers and constants -----------*- C++ -*-===//
//
// The program says what is a parameter. One that needs no gradient is frozen,
// unless --trainable names it. Buffers are read, not trained; those of
// integers and booleans, and float masks (zeros and large negative numbers),
// become constants where they are small and the file has them, as do tensors
// that were written as literals.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_WEIGHTS_H
#define DPC_FRONTENDS_TORCH_WEIGHTS_H

#include "frontends/emit/Forward.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

/// What becomes of the program's weights.
struct Weights {
  std::vector<WeightArgument> arguments;
  /// Values of the graph that are arguments, with the argument's name: tied
  /// weights have several values and one argument.
  std::vector<std::pair<std::string, std::string>> bound;
  /// Values of the graph that are constants.
  std::vector<std::pair<std::string, Val>> constants;
  /// Names of float weights among those.
  std::vector<std::string> constantNames;
};

/// Places every weight that `isRead` (by value of the graph).
llvm::Expected<Weights>
placeWeights(const Archive &archive, const Program &program,
             llvm::function_ref<bool(llvm::StringRef)> isRead,
             const ImportOptions &options, mlir::MLIRContext *context);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_WEIGHTS_H
