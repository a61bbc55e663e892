//===- Views.cpp - Values that share memory -------------------------------===//
#include "frontends/torch/Views.h"

#include "frontends/emit/Indexing.h"
#include "frontends/torch/Liveness.h"

namespace dpc::frontend::pt2 {

namespace {
enum class Kind { None, View, MayBeView };
} // namespace

static bool hasSameLayout(const TensorMeta &a, const TensorMeta &b) {
  auto isSame = [](const Size &x, const Size &y) {
    return x.expression == y.expression && x.value == y.value;
  };
  return llvm::equal(a.strides, b.strides, isSame) &&
         llvm::equal(a.sizes, b.sizes, isSame);
}

/// Whether elements are known to be in row-major order without gaps. A reshape
/// of such a tensor is a view.
static bool isContiguous(const TensorMeta &meta) {
  int64_t expected = 1;
  if (meta.strides.size() != meta.sizes.size())
    return false;
  for (size_t d = meta.sizes.size(); d-- > 0;) {
    const Size &size = meta.sizes[d], &stride = meta.strides[d];
    bool isOne = size.expression.empty() && size.value == 1;
    if (!isOne && (!stride.expression.empty() || stride.value != expected))
      return false;
    // The stride of the first dimension is independent of its size.
    if (!size.expression.empty())
      return d == 0;
    if (llvm::MulOverflow(expected, size.value, expected))
      return false;
  }
  return true;
}

/// Whether a dropout drops nothing and therefore returns its argument.
static bool isIdentity(const Node &dropout) {
  for (const auto &[name, argument] : dropout.inputs) {
    bool isOff = name == "train" && !argument.ints.empty() &&
                 argument.ints[0].value == 0;
    bool isZero =
        name == "p" && !argument.numbers.empty() && argument.numbers[0] == 0.0;
    if (isOff || isZero)
      return true;
  }
  return false;
}

/// Returns the kind of an operator whose result can be its first argument.
static Kind kindOfSelf(const Graph &graph, const Node &node, llvm::StringRef op,
                       llvm::StringRef result) {
  for (const auto &[name, argument] : node.inputs)
    if (name == "copy" && !argument.ints.empty() && argument.ints[0].value)
      return Kind::None;
  llvm::StringRef base = node.inputs[0].second.names[0];
  auto from = graph.tensors.find(base), to = graph.tensors.find(result);
  if (from == graph.tensors.end() || to == graph.tensors.end())
    return Kind::MayBeView;
  if (from->second.dtype != to->second.dtype)
    return Kind::None;
  // contiguous() copies unless the layout stays.
  if (op == "contiguous" && !hasSameLayout(from->second, to->second))
    return Kind::None;
  // Other dropouts copy in training, but not as after .eval().
  if (op == "dropout" && !isIdentity(node))
    return Kind::MayBeView;
  if (!hasSameLayout(from->second, to->second))
    return Kind::MayBeView;
  return Kind::View;
}

static Kind kindOf(const Graph &graph, const Node &node,
                   llvm::StringRef result) {
  static const llvm::StringSet<> views = {"view",         "slice",
                                          "select",       "narrow",
                                          "unsqueeze",    "alias",
                                          "squeeze",      "t",
                                          "transpose",    "permute",
                                          "detach",       "expand",
                                          "broadcast_to", "split",
                                          "chunk",        "unbind",
                                          "mT",           "movedim",
                                          "view_as",      "unflatten",
                                          "expand_as",    "T",
                                          "swapdims",     "swapaxes",
                                          "moveaxis",     "adjoint",
                                          "mH",           "unfold",
                                          "diagonal",     "split_with_sizes",
                                          "numpy_T",      "broadcast_tensors",
                                          "tensor_split"};
  static const llvm::StringSet<> self = {
      "to",   "type_as",  "contiguous", "dropout", "float", "double",
      "half", "bfloat16", "long",       "int",     "bool"};
  static const llvm::StringSet<> either = {"reshape", "flatten", "reshape_as",
                                           "ravel"};
  llvm::StringRef target = node.target;
  if (!pureForm(target).empty())
    return result == node.outputs[0] ? Kind::View : Kind::None;
  if (!target.consume_front("aten."))
    return Kind::None;
  llvm::StringRef op = target.split('.').first;
  if (views.contains(op))
    return Kind::View;
  if (self.contains(op))
    return kindOfSelf(graph, node, op, result);
  if (!either.contains(op))
    return Kind::None;
  auto base = graph.tensors.find(node.inputs[0].second.names[0]);
  return base != graph.tensors.end() && isContiguous(base->second)
             ? Kind::View
             : Kind::MayBeView;
}

Views::Views(const Graph &graph) {
  for (const Node &node : graph.nodes) {
    bool readsTensor = !node.inputs.empty() &&
                       !node.inputs[0].second.names.empty() &&
                       !node.inputs[0].second.names[0].empty();
    for (const auto &[n, name] : llvm::enumerate(node.outputs)) {
      Kind kind =
          readsTensor && !name.empty() ? kindOf(graph, node, name) : Kind::None;
      if (kind == Kind::None)
        continue;
      const std::string &base = node.inputs[0].second.names[0];
      if (name == base)
        continue;
      std::vector<std::string> &tree = trees[rootOf(base)];
      if (tree.empty())
        tree.push_back(base);
      tree.push_back(name);
      links[name] = {base, &node, n, kind == Kind::View};
    }
  }
}

const Views::Link *Views::linkOf(llvm::StringRef name) const {
  auto link = links.find(name);
  return link == links.end() ? nullptr : &link->second;
}

llvm::StringRef Views::rootOf(llvm::StringRef name) const {
  while (const Link *link = linkOf(name))
    name = link->base;
  return name;
}

bool Views::isCertain(llvm::StringRef name) const {
  for (const Link *link = linkOf(name); link; link = linkOf(link->base))
    if (!link->isCertain)
      return false;
  return true;
}

llvm::ArrayRef<std::string> Views::sharing(llvm::StringRef name) const {
  auto tree = trees.find(rootOf(name));
  if (tree == trees.end())
    return {};
  return tree->second;
}

static Val intoSlice(Call &maker, Val base, Val part, llvm::StringRef start) {
  int64_t dim = maker.dimOf("dim", base.rank());
  int64_t begin = maker.has(start) ? maker.integer(start) : 0;
  begin = std::clamp<int64_t>(begin < 0 ? begin + base.dim(dim) : begin, 0,
                              base.dim(dim));
  int64_t step = start == "start" && maker.target().starts_with("slice")
                     ? maker.integer("step")
                     : 1;
  return replaced(maker.emit, base, part, dim, begin, step);
}

static Val intoSelected(Call &maker, Val base, Val part) {
  int64_t dim = maker.dimOf("dim", base.rank());
  int64_t index = maker.integer("index");
  Shape shape(base.shape());
  shape[dim] = 1;
  return replaced(maker.emit, base, maker.emit.reshape(part, shape), dim,
                  index < 0 ? index + base.dim(dim) : index, 1);
}

static Val permutedBack(Call &maker, Val part) {
  Shape inverse(part.rank());
  for (const auto &[to, from] : llvm::enumerate(maker.ints("dims")))
    inverse[maker.dim(from, part.rank())] = static_cast<int64_t>(to);
  return maker.emit.transpose(part, inverse);
}

Val writtenBack(Call &maker, Val base, Val part) {
  static const llvm::StringSet<> reshapes = {
      "view",       "unsqueeze", "squeeze",    "alias",  "detach",  "view_as",
      "flatten",    "to",        "unflatten",  "float",  "type_as", "reshape",
      "contiguous", "dropout",   "reshape_as", "double", "half",    "bfloat16",
      "long",       "int",       "bool"};
  Emitter &e = maker.emit;
  if (!pureForm(maker.node.target).empty())
    return part;
  llvm::StringRef op = maker.target().split('.').first;
  if (op == "detach" && maker.trains) {
    if (reachesParameter(base))
      return maker.fail("writes to a result of detach, which is not supported "
                        "if gradients flow to the detached tensor");
    part = withoutGradient(e, part);
  }
  if (reshapes.contains(op) &&
      numElements(base.shape()) == numElements(part.shape()))
    return e.reshape(part, base.shape());
  if (op == "slice")
    return intoSlice(maker, base, part, "start");
  if (op == "narrow")
    return intoSlice(maker, base, part, "start");
  if (op == "select")
    return intoSelected(maker, base, part);
  if (op == "permute")
    return permutedBack(maker, part);
  if (op == "transpose")
    return e.swapDims(part, maker.dimOf("dim0", part.rank()),
                      maker.dimOf("dim1", part.rank()));
  if ((op == "t" || op == "mT") && part.rank() >= 2)
    return e.swapDims(part, part.rank() - 2, part.rank() - 1);
  return maker.fail(
      "writes to a view that {0} creates, which is not supported; accepted: "
      "slices, select, narrow, transpose, permute and reshapes",
      maker.node.target);
}

} // namespace dpc::frontend::pt2
