//===- Rows.cpp - Softmax, norms, reductions and losses -------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/emit/Layers.h"
#include "frontends/emit/Windows.h"
#include "frontends/torch/ops/Shared.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

Val rootOf(Call &c, Val sum) {
  Emitter &e = c.emit;
  if (!c.trains || !reachesParameter(sum))
    return e.sqrt(sum);
  Val isZero = e.eq(sum, 0);
  return e.select(isZero, 0, e.sqrt(e.select(isZero, 1, sum)));
}

Val normAlong(Call &c, Val x, double order, llvm::ArrayRef<int64_t> dims) {
  Emitter &e = c.emit;
  if (order == 2.0)
    return rootOf(c, e.reduce(ReduceKind::sum, e.mul(x, x), dims));
  Val size = e.abs(x);
  if (std::isinf(order))
    return e.reduce(order > 0 ? ReduceKind::max : ReduceKind::min, size, dims);
  if (order == 0.0)
    return e.reduce(ReduceKind::sum, e.convert(e.ne(x, 0), x.element()), dims);
  if (order == 1.0)
    return e.reduce(ReduceKind::sum, size, dims);
  Val sum = e.reduce(ReduceKind::sum, e.pow(size, order), dims);
  if (!c.trains || !reachesParameter(sum))
    return e.pow(sum, 1 / order);
  Val isZero = e.eq(sum, 0);
  return e.select(isZero, 0, e.pow(e.select(isZero, 1, sum), 1 / order));
}

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
  bool isNative = c.target().starts_with("native");
  int64_t groups = c.integer(isNative ? "group" : "num_groups");
  if (x.rank() < 2 || groups < 1 || x.dim(1) % groups)
    return c.fail("num_groups={0} does not divide the channels", groups);
  Val y = normalizedGroups(e, x, groups, c.number("eps"));
  if (c.has("weight"))
    y = e.mul(y, alongChannels(e, c.tensor("weight"), x));
  if (c.has("bias"))
    y = e.add(y, alongChannels(e, c.tensor("bias"), x));
  return y;
}

/// Each channel of a sample is a group.
Val instanceNorm(Call &c, Val x) {
  Emitter &e = c.emit;
  bool ofInstance = c.flag("use_input_stats");
  bool hasRunning = c.has("running_mean") && c.has("running_var");
  if (ofInstance && hasRunning)
    return c.fail("running statistics are not supported in training mode; use "
                  "track_running_stats=False");
  if (x.rank() < 2 || (!ofInstance && !hasRunning))
    return c.fail("input {0} has no channels or no statistics", x);
  double eps = c.number("eps");
  Val y = ofInstance ? normalizedGroups(e, x, x.dim(1), eps)
                     : normalizedBy(e, x, c.tensor("running_mean"),
                                    c.tensor("running_var"), eps);
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
  Shape dims = c.dims("dim", x.rank());
  Type element = c.resultElement();
  llvm::StringRef name = c.target().starts_with("norm") ? "p" : "ord";
  double order = c.has(name) ? c.number(name) : 2.0;
  // An order with two dimensions is a norm of the matrix.
  if (c.target().starts_with("linalg_norm") && c.has(name) && dims.size() > 1)
    return c.fail("matrix norms with an order are not supported; accepted: "
                  "vectors, and ord=None");
  if (c.emit.failed())
    return {};
  x = c.emit.convert(x, element);
  return kept(c, normAlong(c, x, order, dims), x, dims);
}

Val frobeniusNorm(Call &c, Val x) {
  if (c.text("ord") != "fro")
    return c.fail("ord='{0}' is not supported; accepted: fro", c.text("ord"));
  Shape dims = c.dims("dim", x.rank());
  x = c.emit.convert(x, c.resultElement());
  return c.emit.failed() ? Val() : kept(c, normAlong(c, x, 2, dims), x, dims);
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

/// The lower of two middle elements. Without `dim`, that of all elements.
Val median(Call &c, Val x) {
  Emitter &e = c.emit;
  bool ofAll = !c.has("dim");
  if (ofAll || x.rank() == 0)
    x = e.reshape(x, {numElements(x.shape())});
  int64_t dim = ofAll ? 0 : c.dimOf("dim", x.rank());
  if (e.failed() || x.dim(dim) == 0)
    return c.fail("input {0} has no elements", x);
  int64_t middle = (x.dim(dim) - 1) / 2;
  auto [values, places] = e.topk(x, dim, middle + 1, /*largest=*/false);
  auto picked = [&](Val sorted) {
    Val one = e.sliceDim(sorted, dim, middle, 1);
    return c.flag("keepdim") ? one : e.dropDim(one, dim);
  };
  c.out(1, picked(places));
  return picked(values);
}

/// The sort is stable: equal elements keep their order.
Val argsort(Call &c, Val x) {
  if (x.rank() == 0)
    return c.emit.splat(0, c.emit.i64(), {});
  int64_t dim = c.dimOf("dim", x.rank());
  bool descends = c.flag("descending");
  return c.emit.failed() ? Val()
                         : c.emit.topk(x, dim, x.dim(dim), descends).second;
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
  t["linalg_norm.default"] = {
      "self, ord=None, dim=None, keepdim=False, dtype=None", vectorNorm};
  t["linalg_norm.ord_str"] = {"self, ord, dim=None, keepdim=False, dtype=None",
                              frobeniusNorm};
  for (const char *form : {"Scalar", "ScalarOpt_dim", "ScalarOpt_dim_dtype"})
    t[std::string("norm.") + form] = {
        "self, p=2, dim=None, keepdim=False, dtype=None", vectorNorm};
  t["_weight_norm.default"] = {"v, g, dim=0", weightNorm};
  for (const char *form : {".default", ".dim", ".dims"}) {
    t[std::string("any") + form] = {all, anyOf<false>};
    t[std::string("all") + form] = {all, anyOf<true>};
  }
}

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
  t["native_group_norm.default"] = {
      "input, weight, bias, N, C, HxW, group, eps", groupNorm};
  t["instance_norm.default"] = {
      "input, weight, bias, running_mean, running_var, use_input_stats, "
      "momentum, eps",
      instanceNorm};
  addReductions(t);
  t["cumsum.default"] = {"self, dim, dtype=None", cumsum};
  t["topk.default"] = {"self, k, dim=-1, largest=True, sorted=True",
                       topk<false>};
  t["sort.default"] = {"self, dim=-1, descending=False", topk<true>};
  llvm::StringRef stable = "self, stable=False, dim=-1, descending=False";
  t["sort.stable"] = {stable, topk<true>};
  t["median.default"] = {"self, dim=None, keepdim=False", median};
  t["median.dim"] = {"self, dim, keepdim=False", median};
  t["argsort.default"] = {stable, argsort};
  t["argsort.stable"] = {stable, argsort};
  llvm::StringRef one = "self, dim=None, keepdim=False";
  t["argmax.default"] = {one, extreme<true, false>};
  t["argmin.default"] = {one, extreme<false, false>};
  t["max.dim"] = {one, extreme<true, true>};
  t["min.dim"] = {one, extreme<false, true>};
}

} // namespace dpc::frontend::pt2
