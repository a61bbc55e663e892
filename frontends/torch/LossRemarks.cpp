//===- LossRemarks.cpp - Losses that are probably a mistake ---------------===//
#include "frontends/torch/Origins.h"
#include "frontends/torch/ProgramRemarks.h"

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

static const Targets &sigmoids() {
  static const Targets targets = {"aten.sigmoid.default",
                                  "aten.hardsigmoid.default"};
  return targets;
}

static const Targets &logSoftmaxes() {
  static const Targets targets = {"aten.log_softmax.int",
                                  "aten._log_softmax.default"};
  return targets;
}

/// Results that are neither probabilities nor log-probabilities.
static const Targets &otherScores() {
  static const Targets targets = {
      "aten.linear.default",       "aten.addmm.default",
      "aten.mm.default",           "aten.matmul.default",
      "aten.bmm.default",          "aten.convolution.default",
      "aten.conv1d.default",       "aten.conv2d.default",
      "aten.relu.default",         "aten.tanh.default",
      "aten.gelu.default",         "aten.layer_norm.default",
      "aten.conv3d.default",       "aten.silu.default",
      "aten.batch_norm.default",   "aten.elu.default",
      "aten.einsum.default",       "aten.leaky_relu.default",
      "aten.rms_norm.default",     "aten.group_norm.default",
      "aten.instance_norm.default"};
  return targets;
}

/// Ops that compute each element from one element of each operand.
static const Targets &pairings() {
  static const Targets targets = {
      "aten.add.Tensor",       "aten.sub.Tensor",      "aten.mul.Tensor",
      "aten.div.Tensor",       "aten.maximum.default", "aten.minimum.default",
      "aten.pow.Tensor_Tensor"};
  return targets;
}

namespace {

class Losses {
public:
  explicit Losses(const Program &program)
      : graph(program.graph), origins(program.graph) {
    findBatch(program);
  }

  /// Returns the remark on a node, or "".
  std::string remarkOn(const Node &node) const;

private:
  /// Each returns the remark on a node of its kind, or "". `what` begins it.
  std::string onElementwise(const Node &node, const std::string &what) const;
  std::string onClasses(const Node &node, const std::string &what) const;
  std::string onBinary(const Node &node, const std::string &what) const;
  std::string onPairing(const Node &node, const std::string &what) const;

  /// Finds the symbol of the batch: dimension 0 of the first input that has a
  /// symbol there.
  void findBatch(const Program &program);
  const std::vector<Size> *sizesOf(llvm::StringRef name) const {
    auto meta = graph.tensors.find(name);
    return meta == graph.tensors.end() ? nullptr : &meta->second.sizes;
  }
  /// Whether a cross entropy compares with probabilities. The imported program
  /// shows mistakes of the others (tools/driver/Suspicions.h).
  bool hasSoftLabels(const Node &node) const {
    auto labels = graph.tensors.find(operand(node, 1));
    return node.target == "aten.cross_entropy_loss.default" &&
           labels != graph.tensors.end() && isFloatType(labels->second.dtype);
  }
  /// Counts the dimensions of `name` that are the batch.
  int64_t batchesIn(llvm::StringRef name) const;
  const Node *origin(const std::string &name) const {
    return origins.makerOf(origins.sourceOf(name));
  }
  /// Returns the value that aten.broadcast_tensors extends to `name`, or
  /// `name`.
  std::string narrow(const std::string &name) const;
  std::string shapeOf(llvm::StringRef name) const;

  const Graph &graph;
  std::string batch;
  Origins origins;
};

} // namespace

std::string Losses::narrow(const std::string &name) const {
  const Node *maker = origins.makerOf(name);
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
  const std::vector<Size> *sizes = sizesOf(name);
  return sizes ? textOf(*sizes) : "";
}

void Losses::findBatch(const Program &program) {
  for (const InputSpec &input : program.inputs)
    if (const std::vector<Size> *sizes = sizesOf(input.value);
        sizes && input.kind == InputSpec::Kind::User && batch.empty() &&
        !sizes->empty())
      batch = sizes->front().symbol();
}

int64_t Losses::batchesIn(llvm::StringRef name) const {
  const std::vector<Size> *sizes = sizesOf(name);
  return !sizes || batch.empty()
             ? 0
             : llvm::count_if(*sizes, [&](const Size &size) {
                 return size.symbol() == batch;
               });
}

std::string Losses::onElementwise(const Node &node,
                                  const std::string &what) const {
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

std::string Losses::onClasses(const Node &node, const std::string &what) const {
  bool isLikelihood = likelihoodLosses().contains(node.target);
  const Node *scores = origin(operand(node, 0));
  bool isWrong = scores && (otherScores().contains(scores->target) ||
                            softmaxes().contains(scores->target) ||
                            sigmoids().contains(scores->target));
  if (isLikelihood && isWrong)
    return what + " expects log-probabilities, but gets the result of " +
           scores->target + "; cross_entropy accepts such scores";
  if (isLikelihood && !(scores && logSoftmaxes().contains(scores->target)))
    return "";
  const std::vector<Size> *sizes = sizesOf(operand(node, 0));
  const Size *classes =
      sizes && !sizes->empty() ? &(*sizes)[sizes->size() > 1] : nullptr;
  if (classes && classes->expression.empty() && classes->value == 1)
    return what + " gets scores " + shapeOf(operand(node, 0)) +
           " of one class: the loss is always 0 and trains nothing";
  if (isLikelihood)
    scores = origin(operand(*scores, 0));
  llvm::StringRef kind = !scores                                ? ""
                         : softmaxes().contains(scores->target) ? "softmax"
                         : sigmoids().contains(scores->target)  ? "sigmoid"
                                                                : "";
  return kind.empty()
             ? ""
             : what + " applies a softmax to the result of '" + scores->name +
                   "', which is a " + kind.str() + " already";
}

std::string Losses::onBinary(const Node &node, const std::string &what) const {
  const Node *scores = origin(operand(node, 0));
  if (!scores)
    return "";
  bool isSoftmax = softmaxes().contains(scores->target);
  if (llvm::StringRef(node.target).contains("with_logits"))
    return isSoftmax || sigmoids().contains(scores->target)
               ? what + " applies a sigmoid to the result of '" + scores->name +
                     "', which is a " + (isSoftmax ? "softmax" : "sigmoid") +
                     " already"
               : "";
  return otherScores().contains(scores->target) ||
                 logSoftmaxes().contains(scores->target)
             ? what + " expects probabilities, but gets the result of " +
                   scores->target +
                   "; binary_cross_entropy_with_logits accepts such scores"
             : "";
}

std::string Losses::onPairing(const Node &node, const std::string &what) const {
  std::string self = narrow(operand(node, 0)), other = narrow(operand(node, 1));
  if (node.outputs.empty() || batchesIn(node.outputs[0]) < 2 ||
      batchesIn(self) > 1 || batchesIn(other) > 1)
    return "";
  return what + " broadcasts '" + self + "' " + shapeOf(self) + " and '" +
         other + "' " + shapeOf(other) + " to " + shapeOf(node.outputs[0]) +
         ": this pairs elements of different samples unless it is intended";
}

std::string Losses::remarkOn(const Node &node) const {
  llvm::StringRef opName =
      llvm::StringRef(node.target).split('.').second.split('.').first;
  std::string what = "node '" + node.name + "': " + opName.str();
  if (elementwiseLosses().contains(node.target))
    return onElementwise(node, what);
  if (likelihoodLosses().contains(node.target) || hasSoftLabels(node))
    return onClasses(node, what);
  if (node.target == "aten.binary_cross_entropy.default" ||
      node.target == "aten.binary_cross_entropy_with_logits.default")
    return onBinary(node, what);
  return pairings().contains(node.target) ? onPairing(node, what) : "";
}

std::vector<std::string> remarksOnLosses(const Program &program,
                                         const Liveness &live) {
  Losses losses(program);
  std::vector<std::string> remarks;
  for (size_t i = 0; i < program.graph.nodes.size(); ++i)
    if (live.nodes[i])
      if (std::string text = losses.remarkOn(program.graph.nodes[i]);
          !text.empty())
        remarks.push_back(std::move(text));
  return remarks;
}

} // namespace dpc::frontend::pt2
