//===- Losses.cpp - Loss operators ----------------------------------------===//
#include "frontends/torch/Call.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// ATen's enumeration of reductions.
enum Reduction : int64_t { None = 0, Mean = 1, Sum = 2 };

/// Reduces a loss per element according to the argument "reduction".
void reduceLoss(Call &c, Val loss) {
  if (!loss)
    return;
  int64_t reduction = c.integer("reduction");
  Shape all = iotaDims(loss.rank());
  if (reduction == Reduction::None)
    return c.out(loss);
  c.out(reduction == Reduction::Mean
            ? c.emit.mean(loss, all)
            : c.emit.reduce(ReduceKind::sum, loss, all));
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

std::optional<Rows> rowsOf(Call &c) {
  Emitter &e = c.emit;
  Val scores = c.tensor("self"), labels = c.tensor("target");
  if (!scores || !labels)
    return std::nullopt;
  if (scores.rank() == 1)
    scores = e.reshape(scores, {1, scores.dim(0)});
  Rows rows;
  rows.labelShape = Shape(labels.shape());
  int64_t count = numElements(rows.labelShape);
  if (scores.rank() < 2 || labels.isFloat() ||
      numElements(scores.shape()) != count * scores.dim(1)) {
    c.fail("scores " + describe(scores.type()) + " do not fit target " +
           describe(labels.type()) +
           "; accepted: a class index for "
           "each row");
    return std::nullopt;
  }
  Shape perm = {0};
  for (int64_t d = 2; d < scores.rank(); ++d)
    perm.push_back(d);
  perm.push_back(1);
  rows.scores = e.reshape(e.transpose(scores, perm), {count, scores.dim(1)});
  rows.labels = e.convert(e.reshape(labels, {count}), e.builder.getI64Type());
  rows.ignore = c.integer("ignore_index");
  rows.counts = e.compare(
      CompareKind::ne, rows.labels,
      e.scalar(static_cast<double>(rows.ignore), e.builder.getI64Type()));
  if (e.failed())
    return std::nullopt;
  return rows;
}

/// The weight of each row: that of its class, or 0 if the row is ignored.
Val rowWeights(Call &c, const Rows &rows, Type element) {
  Emitter &e = c.emit;
  if (!c.has("weight"))
    return e.convert(rows.counts, element);
  // An ignored label is possibly not a class, so it looks up class 0.
  Val weights = c.tensor("weight");
  Val safe =
      e.select(rows.counts, rows.labels, e.scalar(0, e.builder.getI64Type()));
  if (!weights || !safe)
    return {};
  Val table = e.reshape(weights, {numElements(weights.shape()), 1});
  Val picked = e.reshape(e.embedding(table, safe), rows.labels.shape());
  return e.convert(
      e.select(rows.counts, picked, e.scalar(0, weights.element())), element);
}

/// Weights and reduces the losses of the rows. The mean is sum(loss) /
/// sum(weight), one division of two sums.
void finish(Call &c, const Rows &rows, Val loss) {
  Emitter &e = c.emit;
  if (!loss)
    return;
  Type element = c.resultElement();
  int64_t reduction = c.integer("reduction");
  Val weights = rowWeights(c, rows, loss.element());
  if (c.has("weight"))
    loss = e.binary(BinaryKind::mul, loss, weights);
  if (e.failed())
    return;
  if (reduction == Reduction::None)
    return c.out(e.convert(e.reshape(loss, rows.labelShape), element));
  Val sum = e.reduce(ReduceKind::sum, loss, {0});
  if (reduction == Reduction::Mean)
    sum =
        e.binary(BinaryKind::div, sum, e.reduce(ReduceKind::sum, weights, {0}));
  c.out(e.convert(sum, element));
}

void crossEntropy(Call &c) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c);
  if (!rows)
    return;
  double smoothing = c.number("label_smoothing");
  if (smoothing != 0.0 && c.has("weight")) {
    c.fail("label_smoothing together with weight is not supported");
    return;
  }
  Val loss = e.crossEntropy(rows->scores, rows->labels, rows->ignore);
  Type lossElement = loss.element();
  if (smoothing != 0.0) {
    // The remaining probability is uniform over all classes.
    Val spread = e.unary(
        UnaryKind::neg,
        e.mean(e.logSoftmax(e.convert(rows->scores, lossElement)), {1}));
    spread = e.select(rows->counts, spread, e.scalar(0, lossElement));
    loss = e.binary(BinaryKind::add,
                    e.binary(BinaryKind::mul, loss, 1.0 - smoothing),
                    e.binary(BinaryKind::mul, spread, smoothing));
  }
  finish(c, *rows, loss);
}

/// The scores are log probabilities.
void negativeLogLikelihood(Call &c) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c);
  if (!rows)
    return;
  int64_t count = rows->scores.dim(0), classes = rows->scores.dim(1);
  Val labels = e.reshape(rows->labels, {count, 1});
  Val hot = e.compare(CompareKind::eq, e.iota({count, classes}, 1), labels);
  Val picked = e.select(hot, rows->scores, e.scalar(0, rows->scores.element()));
  Val loss = e.unary(UnaryKind::neg, e.reduce(ReduceKind::sum, picked, {1}));
  if (loss)
    finish(c, *rows, e.select(rows->counts, loss, e.scalar(0, loss.element())));
}

//===----------------------------------------------------------------------===//
// Regression
//===----------------------------------------------------------------------===//

Val difference(Call &c) {
  Type element = c.resultElement();
  Val a = c.tensor("self"), b = c.tensor("target");
  if (!a || !b || !element)
    return {};
  return c.emit.binary(BinaryKind::sub, c.emit.convert(a, element),
                       c.emit.convert(b, element));
}

void meanSquaredError(Call &c) {
  Val d = difference(c);
  reduceLoss(c, c.emit.binary(BinaryKind::mul, d, d));
}

void absoluteError(Call &c) {
  reduceLoss(c, c.emit.unary(UnaryKind::abs, difference(c)));
}

/// 0.5 d^2 / beta below beta, |d| - 0.5 beta above (`isHuber`: times beta).
template <bool isHuber> void smoothError(Call &c) {
  Emitter &e = c.emit;
  double beta = c.number(isHuber ? "delta" : "beta");
  Val d = e.unary(UnaryKind::abs, difference(c));
  if (!d)
    return;
  if (beta == 0.0)
    return reduceLoss(c, d);
  Val near =
      e.binary(BinaryKind::mul, e.binary(BinaryKind::mul, d, d), 0.5 / beta);
  Val far = e.binary(BinaryKind::sub, d, 0.5 * beta);
  Val loss = e.select(
      e.compare(CompareKind::lt, d, e.scalar(beta, d.element())), near, far);
  reduceLoss(c, isHuber ? e.binary(BinaryKind::mul, loss, beta) : loss);
}

/// max(x, 0) - x * y + log(1 + exp(-|x|)). With a weight w of positive labels:
/// (1 - y) * x + (1 + (w - 1) * y) * (log(1 + exp(-|x|)) + max(-x, 0)).
void logisticLoss(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self"), y = c.tensor("target");
  if (!x || !y)
    return;
  Val minus = e.unary(UnaryKind::neg, x);
  Val log = e.unary(
      UnaryKind::log,
      e.binary(BinaryKind::add,
               e.unary(UnaryKind::exp,
                       e.unary(UnaryKind::neg, e.unary(UnaryKind::abs, x))),
               1.0));
  Val positive =
      e.binary(BinaryKind::add, log, e.unary(UnaryKind::relu, minus));
  if (c.has("pos_weight")) {
    Val more = e.binary(BinaryKind::sub, c.tensor("pos_weight"), 1.0);
    Val weight =
        e.binary(BinaryKind::add, e.binary(BinaryKind::mul, more, y), 1.0);
    positive = e.binary(BinaryKind::mul, positive, weight);
  }
  Val rest = e.binary(BinaryKind::sub, x, e.binary(BinaryKind::mul, x, y));
  Val loss = e.binary(BinaryKind::add, rest, positive);
  if (c.has("weight"))
    loss = e.binary(BinaryKind::mul, loss, c.tensor("weight"));
  reduceLoss(c, loss);
}

/// The inputs are probabilities; their logarithms are clamped to at least -100.
/// The unused branch has a finite gradient.
void binaryCrossEntropy(Call &c) {
  Emitter &e = c.emit;
  Val p = c.tensor("self"), y = c.tensor("target");
  if (!p || !y)
    return;
  Val one = e.scalar(1, p.element());
  auto term = [&](Val probability, Val share) {
    if (!probability)
      return Val();
    Val isPositive =
        e.compare(CompareKind::gt, probability, e.scalar(1e-38, p.element()));
    Val log = e.select(
        isPositive,
        e.unary(UnaryKind::log, e.select(isPositive, probability, one)),
        e.scalar(-100, p.element()));
    return e.binary(BinaryKind::mul, share, log);
  };
  Val loss = e.unary(UnaryKind::neg,
                     e.binary(BinaryKind::add, term(p, y),
                              term(e.binary(BinaryKind::sub, one, p),
                                   e.binary(BinaryKind::sub, one, y))));
  if (c.has("weight"))
    loss = e.binary(BinaryKind::mul, loss, c.tensor("weight"));
  reduceLoss(c, loss);
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
