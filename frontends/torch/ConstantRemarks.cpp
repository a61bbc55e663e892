//===- ConstantRemarks.cpp - Weights that are not trained -----------------===//
#include "frontends/torch/Origins.h"
#include "frontends/torch/ProgramRemarks.h"

#include "llvm/ADT/SetVector.h"

namespace dpc::frontend::pt2 {

/// Returns a bit for each operand of `target` that can be a weight.
static unsigned weightOperands(llvm::StringRef target) {
  constexpr unsigned kFirst = 1, kSecond = 2, kThird = 4;
  return llvm::StringSwitch<unsigned>(target)
      .Cases({"aten.linear.default", "aten.convolution.default",
              "aten.conv1d.default", "aten.conv2d.default",
              "aten.conv3d.default"},
             kSecond)
      .Cases({"aten.mm.default", "aten.matmul.default", "aten.bmm.default"},
             kFirst | kSecond)
      .Cases({"aten.addmm.default", "aten.baddbmm.default"}, kSecond | kThird)
      .Case("aten.embedding.default", kFirst)
      .Default(0);
}

/// Copies of numbers that the forward writes down: lift_fresh_copy, or clone
/// after run_decompositions().
static bool copiesLiteral(const Node &node) {
  return node.target == "aten.lift_fresh_copy.default" ||
         node.target == "aten.clone.default";
}

static bool isTable(const TensorMeta &meta) {
  return isFloatType(meta.dtype) &&
         llvm::count_if(meta.sizes,
                        [](const Size &size) { return size.value > 1; }) >= 2;
}

/// Returns the constants of the graph that can be weights.
static llvm::StringMap<const InputSpec *> tablesOf(const Program &program) {
  llvm::StringMap<const InputSpec *> tables;
  for (const InputSpec &input : program.inputs)
    if (auto meta = program.graph.tensors.find(input.value);
        input.kind == InputSpec::Kind::Constant &&
        meta != program.graph.tensors.end() && isTable(meta->second))
      tables[input.value] = &input;
  for (const Node &node : program.graph.nodes)
    if (copiesLiteral(node))
      tables.erase(operand(node, 0));
  return tables;
}

/// "2 weights are neither parameters nor buffers, and are not trained: a [4,
/// 4], b [4, 4]; ..."
static std::string textOf(llvm::ArrayRef<const InputSpec *> specs,
                          const Graph &graph) {
  constexpr size_t kMost = 5;
  std::string names;
  for (const InputSpec *spec : specs.take_front(kMost))
    names += (names.empty() ? "" : ", ") + spec->name + " " +
             textOf(graph.tensors.find(spec->value)->second.sizes);
  if (specs.size() > kMost)
    names += " and " + std::to_string(specs.size() - kMost) + " more";
  std::string what = specs.size() == 1
                         ? "1 weight is neither a parameter nor a buffer, and "
                           "is"
                         : std::to_string(specs.size()) +
                               " weights are neither parameters nor buffers, "
                               "and are";
  return what + " not trained: " + names +
         "; layers in a list need nn.ModuleList, a tensor nn.Parameter or "
         "register_buffer";
}

std::vector<std::string> remarksOnConstants(const Program &program,
                                            const Liveness &live) {
  const Graph &graph = program.graph;
  Origins origins(graph);
  llvm::StringMap<const InputSpec *> tables = tablesOf(program);
  llvm::SetVector<const InputSpec *> found;
  for (const auto &[index, node] : llvm::enumerate(graph.nodes))
    for (size_t i = 0; live.nodes[index] && i < node.inputs.size(); ++i)
      if ((weightOperands(node.target) >> i & 1) != 0)
        if (const InputSpec *spec =
                tables.lookup(origins.sourceOf(operand(node, i))))
          found.insert(spec);
  if (found.empty())
    return {};
  return {textOf(found.getArrayRef(), graph)};
}

} // namespace dpc::frontend::pt2
