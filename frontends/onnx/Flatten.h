//===- Flatten.h - Inlining of model-local functions ------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_ONNX_FLATTEN_H
#define DPC_FRONTENDS_ONNX_FLATTEN_H

#include "frontends/onnx/ModelFile.h"

namespace dpc::frontend {

/// One node of the main graph or of an inlined function body.
struct FlatNode {
  ::onnx::NodeProto proto;
  int64_t opset = 0; ///< version of the default domain that it uses
  int64_t index = 0; ///< position of the node, or of the call, in the graph
};

/// The version of the default operator set among `imports`, or 0.
template <typename Imports> int64_t defaultOpset(const Imports &imports) {
  for (const auto &import : imports)
    if (import.domain().empty() || import.domain() == "ai.onnx")
      return import.version();
  return 0;
}

/// Returns the nodes of `graph` (the main graph of `model` or the subgraph of a
/// node) in order. Replaces each call of a model-local function by the
/// function's body, whose values get new names. Nodes are numbered by position,
/// or all have the number `index` if it is given.
llvm::Expected<std::vector<FlatNode>>
flatten(const ::onnx::ModelProto &model, const ::onnx::GraphProto &graph,
        int64_t opset, std::optional<int64_t> index = std::nullopt);

/// Adds every value name that `node` reads, including names that its subgraphs
/// capture.
void collectReads(const ::onnx::NodeProto &node,
                  llvm::function_ref<void(llvm::StringRef)> read);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_FLATTEN_H
