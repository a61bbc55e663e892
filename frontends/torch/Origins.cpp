//===- Origins.cpp - Where values of a graph come from --------------------===//
#include "frontends/torch/Origins.h"

namespace dpc::frontend::pt2 {

/// Ops that keep the values of their first operand.
static const llvm::StringSet<> &moves() {
  static const llvm::StringSet<> targets = {
      "aten.view.default",       "aten.reshape.default",
      "aten.transpose.int",      "aten.permute.default",
      "aten.unsqueeze.default",  "aten.squeeze.dim",
      "aten.clone.default",      "aten.contiguous.default",
      "aten._to_copy.default",   "aten.to.dtype",
      "aten.slice.Tensor",       "aten.alias.default",
      "aten.flatten.using_ints", "aten.t.default",
      "aten.detach.default"};
  return targets;
}

std::string operand(const Node &node, size_t index) {
  if (index >= node.inputs.size() ||
      node.inputs[index].second.kind != Argument::Kind::Tensor)
    return "";
  return node.inputs[index].second.names[0];
}

std::string textOf(const Size &size) {
  std::string symbol = size.symbol();
  return size.expression.empty() ? std::to_string(size.value)
         : symbol.empty()        ? size.expression
                                 : symbol;
}

std::string textOf(const std::vector<Size> &sizes) {
  std::string text = "[";
  for (const Size &size : sizes)
    text += (text.size() > 1 ? ", " : "") + textOf(size);
  return text + "]";
}

Origins::Origins(const Graph &graph) {
  for (const Node &node : graph.nodes)
    for (const std::string &name : node.outputs)
      if (!name.empty())
        makers[name] = &node;
}

std::string Origins::sourceOf(std::string name) const {
  // A damaged file may have a cycle.
  for (size_t i = 0; i <= makers.size(); ++i) {
    const Node *maker = makers.lookup(name);
    if (!maker || !moves().contains(maker->target))
      break;
    name = operand(*maker, 0);
  }
  return name;
}

} // namespace dpc::frontend::pt2
