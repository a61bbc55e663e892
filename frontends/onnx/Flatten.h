//===- Flatten.h - Inlining of model-local functions ------------*- C++ -*-===//
#pragma once

#include "frontends/onnx/ModelFile.h"

namespace dpc::frontend {

/// One node of the main graph or of an inlined function body.
struct FlatNode {
  ::onnx::NodeProto proto;
  int64_t opset = 0; ///< version of the default operator set
  int64_t index = 0; ///< position in the graph, of the node or its call
};

/// Returns the version of the default operator set, or 0 if it is not imported.
template <typename Imports> int64_t defaultOpset(const Imports &imports) {
  for (const auto &import : imports)
    if (import.domain().empty() || import.domain() == "ai.onnx")
      return import.version();
  return 0;
}

/// Returns the nodes of `graph` (the main graph of `model` or the subgraph of a
/// node) in order. Inlines calls of model-local functions and renames the
/// values of their bodies. FlatNode::index is `index` if set, otherwise the
/// position in `graph`.
llvm::Expected<std::vector<FlatNode>>
flatten(const ::onnx::ModelProto &model, const ::onnx::GraphProto &graph,
        int64_t opset, std::optional<int64_t> index = std::nullopt);

/// Calls `read` with the names of all values that `node` reads, including those
/// that its subgraphs read.
void collectReads(const ::onnx::NodeProto &node,
                  llvm::function_ref<void(llvm::StringRef)> read);

} // namespace dpc::frontend
