//===- Inline.cpp - Inlining of graphs within a program -------------------===//
//
// torch.export puts code that runs without gradients or with autocast into an
// inner graph, which one node calls. This file replaces the call by the nodes
// of the inner graph, so that a write to a view also changes its base outside.
//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Options.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

namespace {

struct GraphCall {
  const Graph *body = nullptr;
  std::vector<std::string> operands;
  /// true: enables gradients; false: disables them; unset: neither
  std::optional<bool> setsGradients;
};

class Inliner {
public:
  Inliner(Graph &made, llvm::StringRef file) : made(made), file(file) {}

  llvm::Error add(const Graph &graph, const llvm::StringMap<std::string> &names,
                  llvm::StringRef prefix, bool stopsGradients);

private:
  llvm::Expected<GraphCall> read(const Node &node, size_t index,
                                 bool stopsGradients) const;
  llvm::Error addCall(const Node &node, const GraphCall &call,
                      const llvm::StringMap<std::string> &names,
                      llvm::StringRef prefix, bool stopsGradients);

  Graph &made;
  llvm::StringRef file;
};

} // namespace

static bool callsGraph(const Node &node) {
  return llvm::StringRef(node.target).starts_with("higher_order.");
}

/// `stopsGradients` says whether the call is in a graph without gradients.
llvm::Expected<GraphCall> Inliner::read(const Node &node, size_t index,
                                        bool stopsGradients) const {
  auto error = [&](const llvm::Twine &why) {
    return makeError("{0}: node {1} '{2}': {3}: {4}", file, index, node.name,
                     node.target, why);
  };
  llvm::StringRef target = node.target;
  bool setsGradients = target == "higher_order.wrap_with_set_grad_enabled";
  if (!setsGradients && target != "higher_order.wrap_with_autocast")
    return error("is not supported; accepted instead: "
                 "wrap_with_set_grad_enabled, wrap_with_autocast");
  GraphCall call;
  bool enabled = false;
  for (const auto &[name, argument] : node.inputs) {
    if (argument.kind == Argument::Kind::Graph && !call.body)
      call.body = argument.graph.get();
    else if (argument.kind == Argument::Kind::Tensor && call.body)
      call.operands.push_back(argument.names[0]);
    else if (argument.kind == Argument::Kind::Int && call.body &&
             !argument.ints[0].name.empty())
      call.operands.push_back(argument.ints[0].name);
    else if (argument.kind == Argument::Kind::Bool && !call.body)
      enabled |= argument.ints[0].value != 0;
    else if (call.body)
      return error("an operand is neither a tensor nor a size; compute it "
                   "inside the torch.no_grad() or autocast block");
  }
  if (!call.body || call.body->inputs.size() != call.operands.size())
    return error("the inner graph must have one input per operand");
  if (setsGradients)
    call.setsGradients = enabled;
  // Enabling gradients again would need to distinguish values computed with and
  // without gradients. torch.export does not nest these graphs.
  if (setsGradients && enabled && stopsGradients)
    return error(
        "turns gradients on inside a graph that runs without them, "
        "which is not supported; accepted: graphs one after the other");
  return call;
}

static std::string renamed(const std::string &name,
                           const llvm::StringMap<std::string> &names,
                           llvm::StringRef prefix) {
  if (name.empty())
    return name;
  auto known = names.find(name);
  return known == names.end() ? (prefix + name).str() : known->second;
}

static Argument renamed(Argument argument,
                        const llvm::StringMap<std::string> &names,
                        llvm::StringRef prefix) {
  for (std::string &name : argument.names)
    name = renamed(name, names, prefix);
  for (SymInt &integer : argument.ints)
    integer.name = renamed(integer.name, names, prefix);
  return argument;
}

llvm::Error Inliner::addCall(const Node &node, const GraphCall &call,
                             const llvm::StringMap<std::string> &names,
                             llvm::StringRef prefix, bool stopsGradients) {
  const Graph &body = *call.body;
  bool stopsInside = stopsGradients || call.setsGradients == false;
  std::string inside = renamed(node.name, {}, prefix) + "/";
  llvm::StringMap<std::string> inner;
  for (const auto &[name, operand] : llvm::zip(body.inputs, call.operands))
    if (!name.empty())
      inner[name] = renamed(operand, names, prefix);
  if (llvm::Error error = add(body, inner, inside, stopsInside))
    return error;
  size_t count = std::min(node.outputs.size(), body.outputs.size());
  for (size_t n = 0; n < count; ++n) {
    if (body.outputs[n].names.empty() || node.outputs[n].empty())
      continue;
    Node result;
    result.target = stopsInside && !stopsGradients ? "aten.detach.default"
                                                   : "aten.alias.default";
    result.name = renamed(node.outputs[n], {}, prefix);
    Argument self;
    self.kind = Argument::Kind::Tensor;
    self.names = {renamed(body.outputs[n].names[0], inner, inside)};
    result.inputs.emplace_back("self", std::move(self));
    result.outputs = {result.name};
    made.nodes.push_back(std::move(result));
  }
  return llvm::Error::success();
}

llvm::Error Inliner::add(const Graph &graph,
                         const llvm::StringMap<std::string> &names,
                         llvm::StringRef prefix, bool stopsGradients) {
  for (const auto &entry : graph.tensors)
    made.tensors.try_emplace(renamed(entry.getKey().str(), names, prefix),
                             entry.getValue());
  for (const auto &[index, node] : llvm::enumerate(graph.nodes)) {
    if (callsGraph(node)) {
      auto call = read(node, index, stopsGradients);
      if (!call)
        return call.takeError();
      if (llvm::Error error =
              addCall(node, *call, names, prefix, stopsGradients))
        return error;
      continue;
    }
    Node copy = node;
    copy.name = renamed(node.name, {}, prefix);
    copy.stopsGradients = stopsGradients;
    for (auto &[name, argument] : copy.inputs)
      argument = renamed(std::move(argument), names, prefix);
    for (std::string &output : copy.outputs)
      output = renamed(output, names, prefix);
    made.nodes.push_back(std::move(copy));
  }
  return llvm::Error::success();
}

llvm::Error inlineCalls(Graph &graph, llvm::StringRef file) {
  if (llvm::none_of(graph.nodes, callsGraph))
    return llvm::Error::success();
  Graph made;
  made.inputs = graph.inputs;
  made.outputs = graph.outputs;
  if (llvm::Error error = Inliner(made, file).add(graph, {}, "", false))
    return error;
  graph = std::move(made);
  return llvm::Error::success();
}

} // namespace dpc::frontend::pt2
