//===- Rows.cpp - Softmax, norms, reductions and losses -------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/emit/Layers.h"
#include "frontends/emit/Windows.h"
#include "frontends/torch/Call.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

template <bool isLog> Val softmax(Call &c, Val x) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  if (!element)
    return {};
  Val wide = e.convert(x, element);
  if (x.rank() == 0)
    wide = e.reshape(wide, {1});
  int64_t dim = c.dimOf("dim", wide.rank());
  if (e.failed())
    return {};
  Val moved = e.swapWithLast(wide, dim);
  Val rows = isLog ? e.logSoftmax(moved) : e.softmax(moved);
  return e.reshape(e.swapWithLast(rows, dim), x.shape());
}

/// dpc.norm over the last dimensions of x, which have `count` elements.
Val norm(Call &c, NormKind kind, Val x, int64_t count, Val scale, Val bias,
         double eps) {
  Emitter &e = c.emit;
  int64_t rows = count ? numElements(x.shape()) / count : 0;
  Shape flat = {rows, count};
  // If only one dimension is normalized, keep all others, which can be sharded.
  if (x.rank() > 0 && x.shape().back() == count)
    flat = Shape(x.shape());
  Val input = e.reshape(x, flat);
  if (!input || e.failed())
    return {};
  auto vector = [&](const Val &v) {
    return Val(e.materialize(e.reshape(v, {count})));
  };
  Val gain = vector(scale), shift = vector(bias);
  if (e.failed())
    return {};
  NormOp op = makeNorm(e, kind, input, gain, shift, eps);
  c.out(0, e.reshape(Val(op.getY()), x.shape()));
  if (!c.wants(1))
    return {};
  Shape kept(x.shape());
  for (int64_t d = x.rank(), left = count; d-- > 0 && left > 1;
       left /= x.dim(d))
    kept[d] = 1;
  if (numElements(kept) == rows) {
    c.out(1, e.reshape(Val(op.getMean()), kept));
    c.out(2, e.reshape(Val(op.getRstd()), kept));
  }
  return {};
}

Val affine(Call &c, llvm::StringRef name, Val x) {
  return c.has(name) ? c.emit.convert(c.tensor(name), x.element()) : Val();
}

/// `normalized_shape` must be the end of x's shape; 0 after a failure.
int64_t normalized(Call &c, Val x) {
  Shape shape = c.ints("normalized_shape");
  if (!c.emit.failed() && !shape.empty() &&
      static_cast<int64_t>(shape.size()) <= x.rank() &&
      x.shape().take_back(shape.size()) == llvm::ArrayRef(shape))
    return numElements(shape);
  c.fail("normalized_shape {0} is not a suffix of {1}", shape, x);
  return 0;
}

Val layerNorm(Call &c, Val x) {
  int64_t count = normalized(c, x);
  if (!count)
    return {};
  Val scale = affine(c, "weight", x), bias = affine(c, "bias", x);
  return norm(c, NormKind::layer, x, count, scale, bias, c.number("eps"));
}

/// The default of eps depends on the element type.
Val rmsNorm(Call &c, Val x) {
  int64_t count = normalized(c, x);
  if (!count)
    return {};
  double eps = x.element().isF64() ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon();
  return norm(c, NormKind::rms, x, count, affine(c, "weight", x), Val(),
              c.has("eps") ? c.number("eps") : eps);
}

Val groupNorm(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t groups = c.integer("num_groups");
  if (x.rank() < 2 || groups < 1 || x.dim(1) % groups)
    return c.fail("num_groups={0} does not divide the channels", groups);
  Val y = normalizedGroups(e, x, groups, c.number("eps"));
  if (c.has("weight"))
    y = e.mul(y, alongChannels(e, c.tensor("weight"), x));
  if (c.has("bias"))
    y = e.add(y, alongChannels(e, c.tensor("bias"), x));
  return y;
}

/// Restores the reduced `dims` with size 1 if the argument keepdim is set.
Val kept(Call &c, Val reduced, Val x, llvm::ArrayRef<int64_t> dims) {
  return c.flag("keepdim") ? c.emit.keepDims(reduced, x, dims) : reduced;
}

Val squared(Emitter &e, Val x) { return e.mul(x, x); }

template <ReduceKind kind, bool isMean = false> Val reduce(Call &c, Val x) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  if (!element)
    return {};
  x = e.convert(x, element);
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return {};
  return kept(c, isMean ? e.mean(x, dims) : e.reduce(kind, x, dims), x, dims);
}

Val logSumExp(Call &c, Val x) {
  Emitter &e = c.emit;
  Shape dims = c.dims("dim", x.rank());
  return e.failed() ? Val() : kept(c, e.logSumExp(x, dims), x, dims);
}

/// Returns the square root of a sum of squares. As in torch, the gradient is 0
/// where the sum is 0.
Val rootOf(Call &c, Val sum) {
  Emitter &e = c.emit;
  if (!c.trains || !reachesParameter(sum))
    return e.sqrt(sum);
  Val isZero = e.eq(sum, 0);
  return e.select(isZero, 0, e.sqrt(e.select(isZero, 1, sum)));
}

/// The divisor of a variance is the count minus this number.
double correctionOf(Call &c) {
  if (!c.target().ends_with(".correction"))
    return c.flag("unbiased") ? 1.0 : 0.0;
  return c.has("correction") ? c.number("correction") : 1.0;
}

/// sum((x - mean)^2) / (n - correction), or its root if `isRoot`.
template <bool isRoot, bool withMean> Val variance(Call &c, Val x) {
  Emitter &e = c.emit;
  Shape dims = c.dims("dim", x.rank());
  double correction = correctionOf(c);
  if (e.failed())
    return {};
  double count = 1;
  for (int64_t d : dims)
    count *= static_cast<double>(x.dim(d));
  Val mean = e.mean(x, dims);
  Val spread = squared(e, e.sub(x, e.keepDims(mean, x, dims)));
  Val result = e.mul(e.reduce(ReduceKind::sum, spread, dims),
                     1.0 / std::max(count - correction, 0.0));
  if (isRoot)
    result = rootOf(c, result);
  c.out(0, kept(c, result, x, dims));
  if (withMean)
    c.out(1, kept(c, mean, x, dims));
  return {};
}

Val vectorNorm(Call &c, Val x) {
  Emitter &e = c.emit;
  double order = c.number("ord");
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return {};
  if (order == 1.0)
    return kept(c, e.reduce(ReduceKind::sum, e.abs(x), dims), x, dims);
  if (order != 2.0)
    return c.fail("order {0} is not supported; accepted: 1, 2",
                  std::to_string(order));
  Val sum = e.reduce(ReduceKind::sum, squared(e, x), dims);
  return kept(c, rootOf(c, sum), x, dims);
}

/// v * g / ||v||, with one norm for each index of `dim`, or one norm if it is
/// -1.
Val weightNorm(Call &c, Val v, Val g) {
  Emitter &e = c.emit;
  if (!v || !g)
    return {};
  int64_t own = c.integer("dim") == -1 ? -1 : c.dimOf("dim", v.rank());
  if (e.failed())
    return {};
  Shape dims;
  for (int64_t d = 0; d < v.rank(); ++d)
    if (d != own)
      dims.push_back(d);
  Val norm = e.sqrt(e.reduce(ReduceKind::sum, squared(e, v), dims));
  return e.mul(v, e.div(g, e.keepDims(norm, v, dims)));
}

/// Whether any element differs from zero or, if `isAll`, whether all do.
template <bool isAll> Val anyOf(Call &c, Val x) {
  Emitter &e = c.emit;
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return {};
  // If `isAll`, count zeros; otherwise count nonzero elements.
  Val hit = isAll ? e.eq(x, 0) : e.ne(x, 0);
  Val count = e.reduce(ReduceKind::sum, e.convert(hit, e.i64()), dims);
  return kept(c, isAll ? e.eq(count, 0) : e.gt(count, 0), x, dims);
}

/// Running sums over more elements are computed at run time.
constexpr int64_t kMaxKnown = int64_t(1) << 22;

Val knownSums(const ConstTensor &x) {
  std::vector<Scalar> sums;
  int64_t row = x.shape().back();
  for (int64_t n = 0; n < x.size(); ++n) {
    Scalar value = x.at(n);
    if (n % row)
      x.isFloat()
          ? value.f += sums.back().f
          : value.i =
                static_cast<int64_t>(static_cast<uint64_t>(value.i) +
                                     static_cast<uint64_t>(sums.back().i));
    sums.push_back(coerce(value, x.element()));
  }
  return Val(
      ConstTensor::dense(x.element(), x.shape(), std::move(sums)).compacted());
}

Val cumsum(Call &c, Val x) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  if (!element || x.rank() == 0)
    return x;
  int64_t dim = c.dimOf("dim", x.rank());
  if (e.failed())
    return {};
  Val rows = e.swapWithLast(e.convert(x, element), dim);
  bool isKnown = rows && rows.constant && rows.constant->size() <= kMaxKnown;
  return e.swapWithLast(
      isKnown ? knownSums(*rows.constant) : e.cumsum(rows, false, false), dim);
}

/// The best k elements along one dimension or, if `isSort`, all of them.
template <bool isSort> Val topk(Call &c, Val x) {
  if (x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank());
  int64_t count = isSort ? x.dim(dim) : c.integer("k");
  bool largest = c.flag(isSort ? "descending" : "largest");
  if (c.emit.failed())
    return {};
  auto [values, indices] = c.emit.topk(x, dim, count, largest);
  c.out(1, indices);
  return values;
}

/// Returns the position of the best element and, if `withValue`, this element.
/// The first one wins on ties, and NaN wins over numbers.
template <bool isMax, bool withValue> Val extreme(Call &c, Val x) {
  Emitter &e = c.emit;
  if (x.rank() == 0)
    return {};
  Shape result(x.shape());
  if (!c.has("dim")) {
    x = e.reshape(x, {numElements(x.shape())});
    result.assign(result.size(), 1);
  }
  int64_t dim = c.has("dim") ? c.dimOf("dim", x.rank()) : 0;
  if (e.failed())
    return {};
  if (numElements(x.shape()) == 0)
    return c.fail("input {0} has no elements", x);
  constexpr ReduceKind kind = isMax ? ReduceKind::max : ReduceKind::min;
  Val place = argReduce(e, kind, x, dim, /*last=*/false);
  if (c.has("dim"))
    result[dim] = 1;
  if (!c.flag("keepdim")) {
    if (c.has("dim"))
      result.erase(result.begin() + dim);
    else
      result.clear();
  }
  if (withValue) {
    Val here = e.eq(e.iota(x.shape(), dim), place);
    Val alone = e.select(here, x, 0);
    c.out(0, e.reshape(e.reduce(ReduceKind::sum, alone, {dim}), result));
  }
  c.out(withValue ? 1 : 0, e.reshape(place, result));
  return {};
}

} // namespace

static void addReductions(OperatorTable &t) {
  llvm::StringRef all = "self, dim=None, keepdim=False, dtype=None";
  for (const char *form : {".default", ".dim_IntList", ".dim"}) {
    t[std::string("sum") + form] = {all, reduce<ReduceKind::sum>};
    t[std::string("mean") + form] = {all, reduce<ReduceKind::sum, true>};
  }
  t["prod.default"] = {all, reduce<ReduceKind::prod>};
  t["amax.default"] = {all, reduce<ReduceKind::max>};
  t["amin.default"] = {all, reduce<ReduceKind::min>};
  t["max.default"] = {all, reduce<ReduceKind::max>};
  t["min.default"] = {all, reduce<ReduceKind::min>};
  t["logsumexp.default"] = {all, logSumExp};
  llvm::StringRef spread = "self, dim=None, correction=None, keepdim=False";
  for (const char *form : {".default", ".dim"}) {
    llvm::StringRef old = "self, dim=None, unbiased=True, keepdim=False";
    t[std::string("var") + form] = {old, variance<false, false>};
    t[std::string("std") + form] = {old, variance<true, false>};
    t[std::string("var_mean") + form] = {old, variance<false, true>};
  }
  t["var.correction"] = {spread, variance<false, false>};
  t["std.correction"] = {spread, variance<true, false>};
  t["var_mean.correction"] = {spread, variance<false, true>};
  t["linalg_vector_norm.default"] = {
      "self, ord=2, dim=None, keepdim=False, dtype=None", vectorNorm};
  t["_weight_norm.default"] = {"v, g, dim=0", weightNorm};
  for (const char *form : {".default", ".dim", ".dims"}) {
    t[std::string("any") + form] = {all, anyOf<false>};
    t[std::string("all") + form] = {all, anyOf<true>};
  }
}

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
    // Smoothing moves a part of the probability evenly to all classes.
    Val spread =
        e.neg(e.mean(e.logSoftmax(e.convert(rows->scores, lossElement)), {1}));
    spread = e.select(rows->counts, spread, 0);
    loss = e.add(e.mul(loss, 1.0 - smoothing), e.mul(spread, smoothing));
  }
  return finish(c, *rows, loss);
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

} // namespace

void addRows(OperatorTable &t) {
  t["softmax.int"] = {"self, dim, dtype=None", softmax<false>};
  t["_softmax.default"] = {"self, dim, half_to_float", softmax<false>};
  t["log_softmax.int"] = {"self, dim, dtype=None", softmax<true>};
  t["_log_softmax.default"] = {"self, dim, half_to_float", softmax<true>};
  t["layer_norm.default"] = {
      "input, normalized_shape, weight=None, bias=None, eps=1e-5", layerNorm};
  t["native_layer_norm.default"] = {
      "input, normalized_shape, weight=None, bias=None, eps", layerNorm};
  t["rms_norm.default"] = {"input, normalized_shape, weight=None, eps=None",
                           rmsNorm};
  t["group_norm.default"] = {
      "input, num_groups, weight=None, bias=None, eps=1e-5", groupNorm};
  addReductions(t);
  t["cumsum.default"] = {"self, dim, dtype=None", cumsum};
  t["topk.default"] = {"self, k, dim=-1, largest=True, sorted=True",
                       topk<false>};
  t["sort.default"] = {"self, dim=-1, descending=False", topk<true>};
  llvm::StringRef one = "self, dim=None, keepdim=False";
  t["argmax.default"] = {one, extreme<true, false>};
  t["argmin.default"] = {one, extreme<false, false>};
  t["max.dim"] = {one, extreme<true, true>};
  t["min.dim"] = {one, extreme<false, true>};
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
