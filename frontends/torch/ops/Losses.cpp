//===- Losses.cpp - Loss operators ----------------------------------------===//
#include "frontends/emit/Layers.h"
#include "frontends/torch/Call.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// ATen's enumeration of reductions.
enum Reduction : int64_t { None = 0, Mean = 1, Sum = 2 };

/// Reduces a loss per element according to the argument "reduction".
Val reduceLoss(Call &c, Val loss) {
  if (!loss)
    return {};
  int64_t reduction = c.integer("reduction");
  Shape all = iotaDims(loss.rank());
  if (reduction == Reduction::None)
    return loss;
  return reduction == Reduction::Mean
             ? c.emit.mean(loss, all)
             : c.emit.reduce(ReduceKind::sum, loss, all);
}

//===----------------------------------------------------------------------===//
// Classification
//===----------------------------------------------------------------------===//

/// Scores [N, C, d..] or [C] as rows [N * d.., C].
struct Rows {
  Val scores; ///< [rows, classes]
  Val labels; ///< [rows], i64
  Val counts; ///< [rows], i1: not ignored
  Shape labelShape;
  int64_t ignore = -100;
};

std::optional<Rows> rowsOf(Call &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  if (scores.rank() == 1)
    scores = e.reshape(scores, {1, scores.dim(0)});
  Rows rows;
  rows.labelShape = Shape(labels.shape());
  int64_t count = numElements(rows.labelShape);
  if (scores.rank() < 2 || labels.isFloat() ||
      numElements(scores.shape()) != count * scores.dim(1)) {
    c.fail("scores {0} do not fit target {1}; accepted: a class index for each "
           "row",
           scores, labels);
    return std::nullopt;
  }
  rows.scores = classRows(e, scores);
  rows.labels = e.convert(e.reshape(labels, {count}), e.i64());
  rows.ignore = c.integer("ignore_index");
  rows.counts = e.ne(rows.labels, rows.ignore);
  if (e.failed())
    return std::nullopt;
  return rows;
}

/// The weight of each row: that of its class, or 0 if the row is ignored.
Val rowWeights(Call &c, const Rows &rows, Type element) {
  Emitter &e = c.emit;
  if (!c.has("weight"))
    return e.convert(rows.counts, element);
  return e.convert(
      classWeights(e, c.tensor("weight"), rows.labels, rows.counts), element);
}

/// Weights and reduces the losses of the rows. The mean is sum(loss) /
/// sum(weight), one division of two sums.
Val finish(Call &c, const Rows &rows, Val loss) {
  Emitter &e = c.emit;
  if (!loss)
    return {};
  Type element = c.resultElement();
  int64_t reduction = c.integer("reduction");
  Val weights = rowWeights(c, rows, loss.element());
  if (c.has("weight"))
    loss = e.mul(loss, weights);
  if (e.failed())
    return {};
  if (reduction == Reduction::None)
    return e.convert(e.reshape(loss, rows.labelShape), element);
  Val sum = e.reduce(ReduceKind::sum, loss, {0});
  if (reduction == Reduction::Mean)
    sum = e.div(sum, e.reduce(ReduceKind::sum, weights, {0}));
  return e.convert(sum, element);
}

Val crossEntropy(Call &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  double smoothing = c.number("label_smoothing");
  if (smoothing != 0.0 && c.has("weight"))
    return c.fail("label_smoothing together with weight is not supported");
  Val loss = e.crossEntropy(rows->scores, rows->labels, rows->ignore);
  Type lossElement = loss.element();
  if (smoothing != 0.0) {
    // The remaining probability is uniform over all classes.
    Val spread =
        e.neg(e.mean(e.logSoftmax(e.convert(rows->scores, lossElement)), {1}));
    spread = e.select(rows->counts, spread, 0);
    loss = e.add(e.mul(loss, 1.0 - smoothing), e.mul(spread, smoothing));
  }
  return finish(c, *rows, loss);
}

/// The scores are log probabilities.
Val negativeLogLikelihood(Call &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  Val loss = pickedLoss(e, rows->scores, rows->labels);
  return finish(c, *rows, e.select(rows->counts, loss, 0));
}

//===----------------------------------------------------------------------===//
// Regression
//===----------------------------------------------------------------------===//

Val difference(Call &c, Val a, Val b) {
  Type element = c.resultElement();
  if (!element)
    return {};
  return c.emit.sub(c.emit.convert(a, element), c.emit.convert(b, element));
}

Val meanSquaredError(Call &c, Val a, Val b) {
  Val d = difference(c, a, b);
  return reduceLoss(c, c.emit.mul(d, d));
}

Val absoluteError(Call &c, Val a, Val b) {
  return reduceLoss(c, c.emit.abs(difference(c, a, b)));
}

/// 0.5 d^2 / beta below beta, |d| - 0.5 beta above (`isHuber`: times beta).
template <bool isHuber> Val smoothError(Call &c, Val a, Val b) {
  Emitter &e = c.emit;
  double beta = c.number(isHuber ? "delta" : "beta");
  Val d = e.abs(difference(c, a, b));
  if (beta == 0.0)
    return reduceLoss(c, d);
  Val near = e.mul(e.mul(d, d), 0.5 / beta);
  Val far = e.sub(d, 0.5 * beta);
  Val loss = e.select(e.lt(d, beta), near, far);
  return reduceLoss(c, isHuber ? e.mul(loss, beta) : loss);
}

/// max(x, 0) - x * y + log(1 + exp(-|x|)). With a weight w of positive labels:
/// (1 - y) * x + (1 + (w - 1) * y) * (log(1 + exp(-|x|)) + max(-x, 0)).
Val logisticLoss(Call &c, Val x, Val y) {
  Emitter &e = c.emit;
  Val minus = e.neg(x);
  Val log = e.log(e.add(e.exp(e.neg(e.abs(x))), 1.0));
  Val positive = e.add(log, e.relu(minus));
  if (c.has("pos_weight")) {
    Val more = e.sub(c.tensor("pos_weight"), 1.0);
    Val weight = e.add(e.mul(more, y), 1.0);
    positive = e.mul(positive, weight);
  }
  Val rest = e.sub(x, e.mul(x, y));
  Val loss = e.add(rest, positive);
  if (c.has("weight"))
    loss = e.mul(loss, c.tensor("weight"));
  return reduceLoss(c, loss);
}

/// The inputs are probabilities; their logarithms are clamped to at least -100.
/// The unused branch has a finite gradient.
Val binaryCrossEntropy(Call &c, Val p, Val y) {
  Emitter &e = c.emit;
  Val one = e.scalar(1, p.element());
  auto term = [&](Val probability, Val share) {
    if (!probability)
      return Val();
    Val isPositive = e.gt(probability, 1e-38);
    Val log = e.select(isPositive,
                       e.log(e.select(isPositive, probability, one)), -100);
    return e.mul(share, log);
  };
  Val loss = e.neg(e.add(term(p, y), term(e.sub(one, p), e.sub(one, y))));
  if (c.has("weight"))
    loss = e.mul(loss, c.tensor("weight"));
  return reduceLoss(c, loss);
}

} // namespace

void addLosses(OperatorTable &t) {
  t["cross_entropy_loss.default"] = {
      "self, target, weight=None, reduction=1, ignore_index=-100, "
      "label_smoothing=0.0",
      crossEntropy};
  llvm::StringRef nll =
      "self, target, weight=None, reduction=1, ignore_index=-100";
  for (const char *name : {"nll_loss_nd.default", "nll_loss.default",
                           "nll_loss2d.default", "nll_loss_forward.default"})
    t[name] = {nll, negativeLogLikelihood};
  t["binary_cross_entropy.default"] = {"self, target, weight=None, reduction=1",
                                       binaryCrossEntropy};
  t["mse_loss.default"] = {"self, target, reduction=1", meanSquaredError};
  t["l1_loss.default"] = {"self, target, reduction=1", absoluteError};
  t["smooth_l1_loss.default"] = {"self, target, reduction=1, beta=1.0",
                                 smoothError<false>};
  t["huber_loss.default"] = {"self, target, reduction=1, delta=1.0",
                             smoothError<true>};
  t["binary_cross_entropy_with_logits.default"] = {
      "self, target, weight=None, pos_weight=None, reduction=1", logisticLoss};
}

} // namespace dpc::frontend::pt2
