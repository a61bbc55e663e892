//===- Liveness.h - Live nodes of a program ---------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_TORCH_LIVENESS_H
#define DPC_FRONTENDS_TORCH_LIVENESS_H

#include "frontends/torch/Program.h"

#include "llvm/ADT/StringSet.h"

namespace dpc::frontend::pt2 {

/// The target of the pure form of an operator that writes its first argument
/// ("aten.add_.Tensor" -> "aten.add.Tensor"); "" if the operator is pure.
std::string pureForm(llvm::StringRef target);

/// Whether a node writes its first argument.
bool writesFirst(const Node &node);

/// Whether a ScalarType of the schema is a float type.
bool isFloatType(int64_t dtype);

/// Calls `visit` with every value that an argument names.
void forEachName(const Argument &argument,
                 llvm::function_ref<void(llvm::StringRef)> visit);

/// The nodes that the program's results and changed float buffers depend on.
struct Liveness {
  std::vector<bool> nodes; ///< whether each node is live
  llvm::StringSet<> values;
  llvm::StringMap<size_t> lastUse; ///< the last live node that uses a value
};

Liveness findLive(const Program &program);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_LIVENESS_H
