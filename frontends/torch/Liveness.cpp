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

llvm::SmallVector<llvm::StringRef> changedBy(const Node &node) {
  if (writesFirst(node) && node.target != "aten.detach_.default")
    return {node.inputs[0].second.names[0]};
  if (node.target != "aten.batch_norm.default")
    return {};
  llvm::SmallVector<llvm::StringRef> statistics;
  bool trains = false;
  for (const auto &[name, argument] : node.inputs) {
    if (name.rfind("running_", 0) == 0 && !argument.names.empty() &&
        !argument.names[0].empty())
      statistics.push_back(argument.names[0]);
    if (name == "training")
      trains = !argument.ints.empty() && argument.ints[0].value != 0;
  }
  return trains ? statistics : llvm::SmallVector<llvm::StringRef>();
}

/// `kept` has the inputs of the graph whose changes are live.
static Liveness findLive(const Program &program, const Views &views,
                         const llvm::StringSet<> &kept,
                         llvm::StringSet<> &memories) {
  const Graph &graph = program.graph;
  Liveness live;
  live.nodes.assign(graph.nodes.size(), false);
  auto use = [&](llvm::StringRef name, size_t position) {
    live.values.insert(name);
    live.lastUse.try_emplace(name, position);
    memories.insert(views.rootOf(name));
  };
  llvm::StringMap<llvm::StringRef> inputs;
  for (const InputSpec &input : program.inputs)
    inputs[input.name.empty() ? input.value : input.name] = input.value;
  for (const OutputSpec &output : program.outputs) {
    bool changes = output.kind == OutputSpec::Kind::Mutation;
    llvm::StringRef changed = changes ? inputs.lookup(output.changed) : "";
    if (output.kind == OutputSpec::Kind::Other ||
        (changes && !kept.contains(changed)))
      continue;
    forEachName(output.value,
                [&](llvm::StringRef name) { use(name, graph.nodes.size()); });
    if (changes) {
      use(changed, graph.nodes.size());
      live.changed.insert(changed);
    }
  }
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node &node = graph.nodes[n];
    llvm::SmallVector<llvm::StringRef> roots;
    for (llvm::StringRef name : changedBy(node))
      roots.push_back(views.rootOf(name));
    bool writes = llvm::any_of(roots, [&](llvm::StringRef root) {
      return memories.contains(root) || kept.contains(root);
    });
    // The result of detach_ is its argument.
    if (writesFirst(node) && roots.empty())
      writes = memories.contains(views.rootOf(node.inputs[0].second.names[0]));
    bool makes = llvm::any_of(node.outputs, [&](const std::string &name) {
      return live.values.contains(name);
    });
    if (!writes && !makes)
      continue;
    live.nodes[n] = true;
    live.changed.insert_range(roots);
    for (const auto &[name, argument] : node.inputs)
      forEachName(argument, [&](llvm::StringRef value) { use(value, n); });
  }
  return live;
}

Liveness findLive(const Program &program) {
  Views views(program.graph);
  llvm::StringSet<> kept;
  for (const InputSpec &input : program.inputs)
    if (input.kind != InputSpec::Kind::Buffer ||
        isFloatValue(program.graph, input.value))
      kept.insert(input.value);
  // A change of an integer buffer can make other integer buffers live.
  for (;;) {
    llvm::StringSet<> memories; // roots of live values
    Liveness live = findLive(program, views, kept, memories);
    size_t before = kept.size();
    for (const InputSpec &input : program.inputs)
      if (memories.contains(input.value))
        kept.insert(input.value);
    if (kept.size() == before)
      return live;
  }
}

} // namespace dpc::frontend::pt2
