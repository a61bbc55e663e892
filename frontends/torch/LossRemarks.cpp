//===- LossRemarks.cpp - Losses that are probably a mistake ---------------===//
#include "frontends/torch/LossRemarks.h"

#include "llvm/ADT/StringSet.h"

namespace dpc::frontend::pt2 {

using Targets = llvm::StringSet<>;

static const Targets &elementwiseLosses() {
  static const Targets targets = {
      "aten.mse_loss.default", "aten.l1_loss.default",
      "aten.smooth_l1_loss.default", "aten.huber_loss.default"};
  return targets;
}

static const Targets &likelihoodLosses() {
  static const Targets targets = {
      "aten.nll_loss_nd.default", "aten.nll_loss.default",
      "aten.nll_loss2d.default", "aten.nll_loss_forward.default"};
  return targets;
}

static const Targets &softmaxes() {
  static const Targets targets = {"aten.softmax.int", "aten._softmax.default"};
  return targets;
}

static const Targets &logSoftmaxes() {
  static const Targets targets = {"aten.log_softmax.int",
                                  "aten._log_softmax.default"};
  return targets;
}

/// Results that are no log-probabilities.
static const Targets &otherScores() {
  static const Targets targets = {
      "aten.linear.default",     "aten.addmm.default",
      "aten.mm.default",         "aten.matmul.default",
      "aten.bmm.default",        "aten.convolution.default",
      "aten.conv1d.default",     "aten.conv2d.default",
      "aten.relu.default",       "aten.tanh.default",
      "aten.sigmoid.default",    "aten.gelu.default",
      "aten.layer_norm.default", "aten.softmax.int",
      "aten._softmax.default"};
  return targets;
}

/// Ops that keep the values of their first operand.
static const Targets &moves() {
  static const Targets targets = {
      "aten.view.default",      "aten.reshape.default",
      "aten.transpose.int",     "aten.permute.default",
      "aten.unsqueeze.default", "aten.squeeze.dim",
      "aten.clone.default",     "aten.contiguous.default",
      "aten._to_copy.default",  "aten.to.dtype",
      "aten.slice.Tensor",      "aten.alias.default",
      "aten.flatten.using_ints"};
  return targets;
}

namespace {

class Losses {
public:
  explicit Losses(const Graph &graph) : graph(graph) {
    for (const Node &node : graph.nodes)
      for (const std::string &name : node.outputs)
        if (!name.empty())
          makers[name] = &node;
  }

  /// Returns the remark on a node, or "".
  std::string remarkOn(const Node &node) const;

private:
  /// Returns the name of a tensor operand, or "".
  static std::string operand(const Node &node, size_t index) {
    if (index >= node.inputs.size() ||
        node.inputs[index].second.kind != Argument::Kind::Tensor)
      return "";
    return node.inputs[index].second.names[0];
  }
  /// Returns the node that computes the values of `name`, or null if they are
  /// an input.
  const Node *origin(std::string name) const;
  /// Returns the value that aten.broadcast_tensors extends to `name`, or
  /// `name`.
  std::string narrow(const std::string &name) const;
  std::string shapeOf(llvm::StringRef name) const;

  const Graph &graph;
  llvm::StringMap<const Node *> makers;
};

} // namespace

const Node *Losses::origin(std::string name) const {
  // A damaged file may have a cycle.
  for (size_t i = 0; i <= graph.nodes.size(); ++i) {
    const Node *maker = makers.lookup(name);
    if (!maker || !moves().contains(maker->target))
      return maker;
    name = operand(*maker, 0);
  }
  return nullptr;
}

std::string Losses::narrow(const std::string &name) const {
  const Node *maker = makers.lookup(name);
  if (!maker || maker->target != "aten.broadcast_tensors.default" ||
      maker->inputs.empty())
    return name;
  const std::vector<std::string> &from = maker->inputs[0].second.names;
  for (size_t i = 0; i < std::min(from.size(), maker->outputs.size()); ++i)
    if (maker->outputs[i] == name)
      return from[i];
  return name;
}

/// "[s0, 1]"; "" if the value is not described.
std::string Losses::shapeOf(llvm::StringRef name) const {
  auto meta = graph.tensors.find(name);
  if (meta == graph.tensors.end())
    return "";
  std::string text = "[";
  for (const Size &size : meta->second.sizes) {
    std::string symbol = size.symbol();
    text += (text.size() > 1 ? ", " : "") + (size.expression.empty()
                                                 ? std::to_string(size.value)
                                             : symbol.empty() ? size.expression
                                                              : symbol);
  }
  return text + "]";
}

std::string Losses::remarkOn(const Node &node) const {
  std::string opName = llvm::StringRef(node.target).split('.').second.str();
  opName = llvm::StringRef(opName).split('.').first.str();
  std::string what = "node '" + node.name + "': " + opName;
  if (elementwiseLosses().contains(node.target)) {
    std::string self = narrow(operand(node, 0)),
                target = narrow(operand(node, 1));
    std::string one = shapeOf(self), other = shapeOf(target);
    return one.empty() || other.empty() || one == other
               ? ""
               : what + " compares '" + self + "' " + one + " with '" + target +
                     "' " + other +
                     ": broadcasting pairs elements of different samples "
                     "unless this is intended";
  }
  bool isLikelihood = likelihoodLosses().contains(node.target);
  if (!isLikelihood && node.target != "aten.cross_entropy_loss.default")
    return "";
  const Node *scores = origin(operand(node, 0));
  if (isLikelihood && scores && otherScores().contains(scores->target))
    return what + " expects log-probabilities, but gets the result of " +
           scores->target + "; cross_entropy accepts such scores";
  if (isLikelihood)
    scores = scores && logSoftmaxes().contains(scores->target)
                 ? origin(operand(*scores, 0))
                 : nullptr;
  if (scores && softmaxes().contains(scores->target))
    return what + " applies a softmax to the result of '" + scores->name +
           "', which is a softmax already";
  return "";
}

std::vector<std::string> remarksOnLosses(const Program &program,
                                         const Liveness &live) {
  Losses losses(program.graph);
  std::vector<std::string> remarks;
  for (size_t i = 0; i < program.graph.nodes.size(); ++i)
    if (live.nodes[i])
      if (std::string text = losses.remarkOn(program.graph.nodes[i]);
          !text.empty())
        remarks.push_back(std::move(text));
  return remarks;
}

} // namespace dpc::frontend::pt2
