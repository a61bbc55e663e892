//===- Losses.cpp - Losses ------------------------------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/emit/Elementwise.h"
#include "frontends/emit/Layers.h"
#include "frontends/torch/ops/Shared.h"

#include <numbers>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// The numbers that ATen uses for reductions.
enum Reduction : int64_t { None = 0, Mean = 1, Sum = 2 };

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

/// The operands of a classification loss with scores [N, C, d..] or [C].
struct Rows {
  Val scores; ///< [rows, classes]
  Val labels; ///< [rows], i64
  Val counts; ///< [rows], i1: false if ignored
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

/// Returns the weight of each row's class, or 0 if the row is ignored.
Val rowWeights(Call &c, const Rows &rows, Type element) {
  Emitter &e = c.emit;
  if (!c.has("weight"))
    return e.convert(rows.counts, element);
  return e.convert(
      classWeights(e, c.tensor("weight"), rows.labels, rows.counts), element);
}

/// Weights and reduces losses of rows. The mean is sum(loss) / sum(weight).
/// Adds `spread`, if it is not null, to the weighted losses.
Val finish(Call &c, const Rows &rows, Val loss, Val spread = {}) {
  Emitter &e = c.emit;
  if (!loss)
    return {};
  Type element = c.resultElement();
  int64_t reduction = c.integer("reduction");
  Val weights = rowWeights(c, rows, loss.element());
  if (c.has("weight"))
    loss = e.mul(loss, weights);
  if (spread)
    loss = e.add(loss, spread);
  if (e.failed())
    return {};
  if (reduction == Reduction::None)
    return e.convert(e.reshape(loss, rows.labelShape), element);
  Val sum = e.reduce(ReduceKind::sum, loss, {0});
  if (reduction == Reduction::Mean)
    sum = e.div(sum, e.reduce(ReduceKind::sum, weights, {0}));
  return e.convert(sum, element);
}

/// -sum(target * weight * log softmax) over the classes. The mean counts all
/// rows alike.
Val probabilisticEntropy(Call &c, Val scores, Val target) {
  Emitter &e = c.emit;
  Type element = c.resultElement(), wide = e.statisticsType(scores);
  if (!element || target.shape() != scores.shape() || scores.rank() == 0)
    return c.fail("scores {0} do not fit probabilities {1}", scores, target);
  int64_t dim = scores.rank() == 1 ? 0 : 1, classes = scores.dim(dim);
  double smoothing = c.number("label_smoothing");
  target = e.convert(target, wide);
  if (smoothing != 0)
    target = e.add(e.mul(target, 1 - smoothing),
                   smoothing / static_cast<double>(classes));
  Val logs = e.swapWithLast(
      e.logSoftmax(e.swapWithLast(e.convert(scores, wide), dim)), dim);
  Val terms = e.mul(logs, target);
  if (c.has("weight"))
    terms = e.mul(terms, e.reshape(e.convert(c.tensor("weight"), wide),
                                   unitShape(scores.rank(), dim, classes)));
  Val loss = e.neg(e.reduce(ReduceKind::sum, terms, {dim}));
  return e.convert(reduceLoss(c, loss), element);
}

/// Smoothing moves a part of the probability evenly to all classes.
Val crossEntropy(Call &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  if (labels.isFloat())
    return probabilisticEntropy(c, scores, labels);
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  double smoothing = c.number("label_smoothing");
  Val loss = e.crossEntropy(rows->scores, rows->labels, rows->ignore);
  if (smoothing == 0.0)
    return finish(c, *rows, loss);
  Type wide = loss.element();
  Val logs = e.logSoftmax(e.convert(rows->scores, wide));
  if (c.has("weight"))
    logs = e.mul(logs, e.convert(c.tensor("weight"), wide));
  Val spread = e.select(rows->counts, e.neg(e.mean(logs, {1})), 0);
  return finish(c, *rows, e.mul(loss, 1.0 - smoothing),
                e.mul(spread, smoothing));
}

Val negativeLogLikelihood(Call &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  Val loss = pickedLoss(e, rows->scores, rows->labels, rows->ignore);
  return finish(c, *rows, e.select(rows->counts, loss, 0));
}

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

/// 0.5 d^2 / beta for d < beta, otherwise d - 0.5 beta; d is |a - b|.
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

/// Returns x * y, whose second operand holds the targets of a binary cross
/// entropy.
Val timesTargets(Emitter &e, const Val &x, const Val &y) {
  Val product = e.mul(x, y);
  if (product && !product.constant)
    product.value.getDefiningOp()->setAttr(attr::kTargets,
                                           e.builder.getI64IntegerAttr(1));
  return product;
}

/// max(x, 0) - x y + log(1 + exp(-|x|)). With a weight w of positive labels: (1
/// - y) x + (1 + (w - 1) y) (log(1 + exp(-|x|)) + max(-x, 0)).
Val logisticLoss(Call &c, Val x, Val y) {
  Emitter &e = c.emit;
  Val minus = e.neg(x);
  Val log = e.log(e.add(e.exp(e.neg(e.abs(x))), 1.0));
  Val positive = e.add(log, e.maximum(minus, 0)); // as in softplus
  if (c.has("pos_weight")) {
    Val more = e.sub(c.tensor("pos_weight"), 1.0);
    Val weight = e.add(e.mul(more, y), 1.0);
    positive = e.mul(positive, weight);
  }
  Val rest = e.sub(x, timesTargets(e, x, y));
  Val loss = e.add(rest, positive);
  if (c.has("weight"))
    loss = e.mul(loss, c.tensor("weight"));
  return reduceLoss(c, loss);
}

/// -y log(p) - (1 - y) log(1 - p). As in torch, a logarithm is at least -100,
/// and the gradient of p is (p - y) / max(p (1 - p), 1e-12), also where a
/// logarithm is clamped. The term `slope` * (p - p) is zero and has this
/// gradient.
Val binaryCrossEntropy(Call &c, Val p, Val y) {
  Emitter &e = c.emit;
  if (!p || !y)
    return {};
  Type element = p.element();
  // f16 has no 1e-12.
  Type wide = e.statisticsType(p);
  p = e.convert(p, wide);
  y = e.convert(y, wide);
  Val fixed = withoutGradient(e, p);
  Val rest = e.sub(e.scalar(1, wide), fixed);
  auto logarithm = [&](Val x) {
    return e.maximum(e.log(e.maximum(std::move(x), 0)), -100);
  };
  Val positive = timesTargets(e, logarithm(fixed), y);
  Val negative = e.mul(e.sub(e.scalar(1, wide), y), logarithm(rest));
  Val slope = e.div(e.sub(fixed, withoutGradient(e, y)),
                    e.maximum(e.mul(fixed, rest), 1e-12));
  Val loss = e.neg(e.add(positive, negative));
  if (c.trains && reachesParameter(p))
    loss = e.add(loss, e.mul(slope, e.sub(p, fixed)));
  if (c.has("weight"))
    loss = e.mul(loss, c.tensor("weight"));
  return reduceLoss(c, e.convert(loss, element));
}

/// target (log(target) - input), where 0 log(0) is 0.
Val divergence(Call &c, Val x, Val target) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  if (!element)
    return {};
  x = e.convert(x, element);
  target = e.convert(target, element);
  if (c.flag("log_target"))
    return reduceLoss(c, e.mul(e.exp(target), e.sub(target, x)));
  Val logs = e.log(e.select(e.gt(target, 0), target, 1));
  return reduceLoss(c, e.sub(e.mul(target, logs), e.mul(target, x)));
}

/// Norm of a - b + eps along the last dimension.
Val distance(Call &c, Val a, Val b, double p, double eps) {
  Val d = c.emit.add(c.emit.sub(a, b), eps);
  return d && d.rank() > 0 ? normAlong(c, d, p, {d.rank() - 1}) : Val();
}

Val pairwiseDistance(Call &c, Val a, Val b) {
  Val d = distance(c, a, b, c.number("p"), c.number("eps"));
  if (!d || !c.flag("keepdim"))
    return d;
  return c.emit.reshape(d, joinShapes({d.shape(), {1}}));
}

/// The distances of all pairs of rows. As in torch, many rows are compared by
/// products: |a|^2 + |b|^2 - 2 a b.
Val allDistances(Call &c, Val a, Val b) {
  Emitter &e = c.emit;
  double p = c.number("p");
  if (a.rank() < 2 || b.rank() < 2 || a.shape().back() != b.shape().back())
    return c.fail("operands {0} and {1} do not fit", a, b);
  constexpr int64_t kFew = 25;
  int64_t i = a.rank() - 2, j = b.rank() - 2;
  int64_t rows = a.dim(i), columns = b.dim(j), k = a.dim(i + 1);
  int64_t mode = c.has("compute_mode") ? c.integer("compute_mode") : 0;
  bool isLarge = mode == 1 || (mode == 0 && (rows > kFew || columns > kFew));
  if (p != 2 || !isLarge) {
    Shape left = joinShapes({a.shape().take_front(i), {rows, 1, k}});
    Shape right = joinShapes({b.shape().take_front(j), {1, columns, k}});
    Val d = e.sub(e.reshape(a, left), e.reshape(b, right));
    return d ? normAlong(c, d, p, {d.rank() - 1}) : Val();
  }
  Val squaresA =
      e.keepDims(e.reduce(ReduceKind::sum, e.mul(a, a), {i + 1}), a, {i + 1});
  Val squaresB = e.reduce(ReduceKind::sum, e.mul(b, b), {j + 1});
  squaresB =
      e.reshape(squaresB, joinShapes({b.shape().take_front(j), {1, columns}}));
  Val products = stackedMatmul(e, a, e.swapDims(b, j, j + 1));
  Val sum = e.sub(e.add(squaresA, squaresB), e.mul(products, 2));
  return rootOf(c, e.maximum(sum, 0));
}

Val tripletMargin(Call &c, Val anchor, Val positive, Val negative) {
  Emitter &e = c.emit;
  double p = c.number("p"), eps = c.number("eps");
  Val near = distance(c, anchor, positive, p, eps);
  Val far = distance(c, anchor, negative, p, eps);
  if (c.flag("swap"))
    far = e.minimum(far, distance(c, positive, negative, p, eps));
  Val loss = e.add(e.sub(near, far), c.number("margin"));
  return reduceLoss(
      c, e.extremum(BinaryKind::maximum, loss, 0, Emitter::Ties::Second));
}

/// The sum of a b over the product of the norms, which are at least eps.
Val similarity(Call &c, Val a, Val b, int64_t dim, double eps) {
  Emitter &e = c.emit;
  auto unit = [&](Val x) {
    Val norm = e.keepDims(normAlong(c, x, 2, {dim}), x, {dim});
    return e.div(x, e.maximum(norm, eps));
  };
  return e.reduce(ReduceKind::sum, e.mul(unit(a), unit(b)), {dim});
}

Val cosineSimilarity(Call &c, Val a, Val b) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  auto shape = e.broadcastShape(a.shape(), b.shape());
  if (!element || !shape)
    return {};
  a = e.broadcastTo(e.convert(a, element), *shape);
  b = e.broadcastTo(e.convert(b, element), *shape);
  int64_t dim = c.dimOf("dim", a.rank());
  if (e.failed() || a.rank() == 0)
    return {};
  return similarity(c, a, b, dim, c.number("eps"));
}

/// Where the target is 1, 1 - cos; where it is -1, cos above the margin.
Val cosineEmbedding(Call &c, Val a, Val b, Val target) {
  Emitter &e = c.emit;
  if (a.rank() == 0 || a.shape() != b.shape())
    return c.fail("operands {0} and {1} do not fit", a, b);
  // torch divides by sqrt((|a|^2 + eps) (|b|^2 + eps)).
  constexpr double eps = 1e-12;
  int64_t last = a.rank() - 1;
  auto sum = [&](const Val &x, const Val &y) {
    return e.reduce(ReduceKind::sum, e.mul(x, y), {last});
  };
  Val scale = e.mul(e.add(sum(a, a), eps), e.add(sum(b, b), eps));
  Val cosine = e.div(sum(a, b), e.sqrt(scale));
  Val apart = e.extremum(BinaryKind::maximum, e.sub(cosine, c.number("margin")),
                         0, Emitter::Ties::Second);
  Val near = e.neg(e.sub(cosine, 1));
  return reduceLoss(
      c, e.select(e.eq(target, 1), near, e.select(e.eq(target, -1), apart, 0)));
}

Val marginRanking(Call &c, Val a, Val b, Val target) {
  Emitter &e = c.emit;
  Val signs = e.convert(target, a.element());
  Val loss = e.sub(e.scalar(c.number("margin"), a.element()),
                   e.mul(signs, e.sub(a, b)));
  return reduceLoss(
      c, e.extremum(BinaryKind::maximum, loss, 0, Emitter::Ties::Second));
}

Val hingeEmbedding(Call &c, Val x, Val target) {
  Emitter &e = c.emit;
  Val rest = e.sub(e.scalar(c.number("margin"), x.element()), x);
  Val margin = e.extremum(BinaryKind::maximum, rest, 0, Emitter::Ties::Second);
  return reduceLoss(c, e.add(e.select(e.ne(target, 1), margin, 0),
                             e.select(e.ne(target, -1), x, 0)));
}

Val softMargin(Call &c, Val x, Val target) {
  Emitter &e = c.emit;
  return reduceLoss(
      c, softplus(e, e.neg(e.mul(e.convert(target, x.element()), x))));
}

Val poisson(Call &c, Val x, Val target) {
  Emitter &e = c.emit;
  target = e.convert(target, x.element());
  Val loss = c.flag("log_input")
                 ? e.sub(e.exp(x), e.mul(target, x))
                 : e.sub(x, e.mul(target, e.log(e.add(x, c.number("eps")))));
  if (c.flag("full")) {
    // Stirling's approximation, for targets above 1.
    Val root = e.mul(e.log(e.mul(target, 2 * std::numbers::pi)), 0.5);
    Val rest = e.add(e.sub(e.mul(target, e.log(target)), target), root);
    loss = e.add(loss, e.select(e.gt(target, 1), rest, 0));
  }
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
  t["soft_margin_loss.default"] = {"self, target, reduction=1", softMargin};
  t["poisson_nll_loss.default"] = {
      "input, target, log_input, full, eps, reduction", poisson};
  t["kl_div.default"] = {"self, target, reduction=1, log_target=False",
                         divergence};
  t["pairwise_distance.default"] = {"x1, x2, p=2, eps=1e-6, keepdim=False",
                                    pairwiseDistance};
  t["cdist.default"] = {"x1, x2, p=2, compute_mode=None", allDistances};
  t["triplet_margin_loss.default"] = {
      "anchor, positive, negative, margin=1, p=2, eps=1e-6, swap=False, "
      "reduction=1",
      tripletMargin};
  t["cosine_similarity.default"] = {"x1, x2, dim=1, eps=1e-8",
                                    cosineSimilarity};
  t["cosine_embedding_loss.default"] = {
      "input1, input2, target, margin=0, reduction=1", cosineEmbedding};
  t["margin_ranking_loss.default"] = {
      "input1, input2, target, margin=0, reduction=1", marginRanking};
  t["hinge_embedding_loss.default"] = {"self, target, margin=1, reduction=1",
                                       hingeEmbedding};
}

} // namespace dpc::frontend::pt2
