//===- Liveness.cpp - Live nodes of a program -----------------------------===//
#include "frontends/torch/Liveness.h"

#include "frontends/torch/Views.h"

namespace dpc::frontend::pt2 {

std::string pureForm(llvm::StringRef target) {
  if (!target.consume_front("aten."))
    return "";
  auto [op, form] = target.split('.');
  if (!op.ends_with("_") || op.ends_with("__"))
    return "";
  return ("aten." + op.drop_back() + "." + form).str();
}

bool isFloatType(int64_t dtype) {
  return dtype == 6 || dtype == 7 || dtype == 8 || dtype == 13;
}

void forEachName(const Argument &argument,
                 llvm::function_ref<void(llvm::StringRef)> visit) {
  for (const std::string &name : argument.names)
    if (!name.empty())
      visit(name);
  for (const SymInt &integer : argument.ints)
    if (!integer.name.empty())
      visit(integer.name);
}

static bool isFloatValue(const Graph &graph, llvm::StringRef name) {
  auto meta = graph.tensors.find(name);
  return meta != graph.tensors.end() && isFloatType(meta->second.dtype);
}

bool writesFirst(const Node &node) {
  return !pureForm(node.target).empty() && !node.inputs.empty() &&
         node.inputs[0].second.kind == Argument::Kind::Tensor;
}

Liveness findLive(const Program &program) {
  const Graph &graph = program.graph;
  Views views(graph);
  Liveness live;
  live.nodes.assign(graph.nodes.size(), false);
  llvm::StringSet<> memories; // roots of live values
  auto use = [&](llvm::StringRef name, size_t position) {
    live.values.insert(name);
    live.lastUse.try_emplace(name, position);
    memories.insert(views.rootOf(name));
  };
  for (const OutputSpec &output : program.outputs)
    if (output.kind == OutputSpec::Kind::User ||
        (output.kind == OutputSpec::Kind::BufferMutation &&
         isFloatValue(graph, output.value.names[0])))
      forEachName(output.value,
                  [&](llvm::StringRef name) { use(name, graph.nodes.size()); });
  llvm::StringSet<> buffers;
  for (const InputSpec &input : program.inputs)
    if (input.kind == InputSpec::Kind::Buffer)
      buffers.insert(input.value);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node &node = graph.nodes[n];
    bool writes = false;
    if (writesFirst(node)) {
      llvm::StringRef memory = views.rootOf(node.inputs[0].second.names[0]);
      writes = memories.contains(memory) ||
               (buffers.contains(memory) && isFloatValue(graph, memory));
    }
    bool makes = llvm::any_of(node.outputs, [&](const std::string &name) {
      return live.values.contains(name);
    });
    if (!writes && !makes)
      continue;
    live.nodes[n] = true;
    for (const auto &[name, argument] : node.inputs)
      forEachName(argument, [&](llvm::StringRef value) { use(value, n); });
  }
  return live;
}

} // namespace dpc::frontend::pt2
