//===- Liveness.h - What the results need ----------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_TORCH_LIVENESS_H
#define DPC_FRONTENDS_TORCH_LIVENESS_H

#include "frontends/torch/Program.h"

#include "llvm/ADT/StringSet.h"

namespace dpc::frontend::pt2 {

/// The target of the pure form of an operator that writes its first argument
/// ("aten.add_.Tensor" -> "aten.add.Tensor"), or "" of a pure one.
std::string pureForm(llvm::StringRef target);

/// Whether a node writes its first argument.
bool writesFirst(const Node &node);

/// Whether a ScalarType of the schema is of floats.
bool isFloatType(int64_t dtype);

/// Calls `visit` with every value that an argument names.
void forEachName(const Argument &argument,
                 llvm::function_ref<void(llvm::StringRef)> visit);

/// What the results of a program, and the float buffers that it changes, need.
struct Liveness {
  std::vector<bool> nodes; ///< by position
  llvm::StringSet<> values;
  llvm::StringMap<size_t> lastUse; ///< of these nodes
};

Liveness findLive(const Program &program);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_LIVENESS_H
