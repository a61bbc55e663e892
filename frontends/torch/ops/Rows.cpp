//===- Rows.cpp - Softmax, norms and reductions ---------------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/emit/Layers.h"
#include "frontends/emit/Windows.h"
#include "frontends/torch/Call.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// dpc.norm over the last dimensions of x, which have `count` elements.
Val norm(Call &c, NormKind kind, Val x, int64_t count, Val scale, Val bias,
         double eps) {
  Emitter &e = c.emit;
  int64_t rows = count ? numElements(x.shape()) / count : 0;
  Shape flat = {rows, count};
  // Leading dimensions stay separate, so that they can be sharded.
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

/// An optional weight in x's element type.
Val affine(Call &c, llvm::StringRef name, Val x) {
  return c.has(name) ? c.emit.convert(c.tensor(name), x.element()) : Val();
}

/// The number of elements of `normalized_shape`, which must be a suffix of x's
/// shape; 0 after a failure.
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

/// The default of eps is that of the element type.
Val rmsNorm(Call &c, Val x) {
  int64_t count = normalized(c, x);
  if (!count)
    return {};
  double eps = x.element().isF64() ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon();
  return norm(c, NormKind::rms, x, count, affine(c, "weight", x), Val(),
              c.has("eps") ? c.number("eps") : eps);
}

/// Each group of channels of each sample is one row.
Val groupNorm(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t groups = c.integer("num_groups");
  if (x.rank() < 2 || groups < 1 || x.dim(1) % groups)
    return c.fail("channels do not divide into num_groups={0}", groups);
  Val y = normalizedGroups(e, x, groups, c.number("eps"));
  if (c.has("weight"))
    y = e.mul(y, alongChannels(e, c.tensor("weight"), x));
  if (c.has("bias"))
    y = e.add(y, alongChannels(e, c.tensor("bias"), x));
  return y;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// `reduced` over `dims`, with unit dimensions if the call has keepdim.
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
  if (e.failed())
    return {};
  return kept(c, e.logSumExp(x, dims), x, dims);
}

/// The number that a variance subtracts from the count: `correction`, or 1 if
/// `unbiased`.
double correctionOf(Call &c) {
  if (!c.target().ends_with(".correction"))
    return c.flag("unbiased") ? 1.0 : 0.0;
  return c.has("correction") ? c.number("correction") : 1.0;
}

/// sum((x - mean)^2) / (n - correction), or its root, and optionally the mean.
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
    result = e.sqrt(result);
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
  return kept(c, e.sqrt(sum), x, dims);
}

/// Whether any element (or all) differs from zero.
template <bool isAll> Val anyOf(Call &c, Val x) {
  Emitter &e = c.emit;
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return {};
  // Count the elements that are zero, or those that are not.
  Val hit = isAll ? e.eq(x, 0) : e.ne(x, 0);
  Val count = e.reduce(ReduceKind::sum, e.convert(hit, e.i64()), dims);
  return kept(c, isAll ? e.eq(count, 0) : e.gt(count, 0), x, dims);
}

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

/// The module computes larger sums.
constexpr int64_t kMaxKnown = int64_t(1) << 22;

/// Running sums along the last dimension of a known tensor.
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

/// The best elements along one dimension: `isSort` takes all of them.
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

/// The greatest (least) element along one dimension and its position: the first
/// one on ties, or the first NaN. Only that element gets the gradient.
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
    return c.fail("has no elements in {0}", x);
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
}

} // namespace dpc::frontend::pt2
