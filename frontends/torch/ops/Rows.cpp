//===- Rows.cpp - Softmax, norms and reductions ---------------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/torch/Call.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

template <bool isLog> void softmax(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  Type element = c.resultElement();
  if (!x || !element)
    return;
  x = e.convert(x, element);
  if (x.rank() == 0)
    x = e.reshape(x, {1});
  int64_t dim = c.dimOf("dim", x.rank());
  if (e.failed())
    return;
  Shape perm = iotaDims(x.rank());
  std::swap(perm[dim], perm.back());
  Val moved = e.transpose(x, perm);
  Val rows = isLog ? e.logSoftmax(moved) : e.softmax(moved);
  c.out(e.reshape(e.transpose(rows, perm), c.tensor("self").shape()));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// dpc.norm over the last dimensions of x, which have `count` elements.
void norm(Call &c, NormKind kind, Val x, int64_t count, Val scale, Val bias,
          double eps) {
  Emitter &e = c.emit;
  int64_t rows = count ? numElements(x.shape()) / count : 0;
  Shape flat = {rows, count};
  // Leading dimensions stay separate, so that they can be sharded.
  if (x.rank() > 0 && x.shape().back() == count)
    flat = Shape(x.shape());
  Val input = e.reshape(x, flat);
  if (!input || e.failed())
    return;
  Type statElement = x.element().isF64() ? x.element() : e.builder.getF32Type();
  auto stats = RankedTensorType::get(input.shape().drop_back(), statElement);
  auto vector = [&](const Val &v) {
    return v ? e.materialize(e.reshape(v, {count})) : Value();
  };
  Value gain = vector(scale), shift = vector(bias);
  if (e.failed())
    return;
  auto op =
      NormOp::create(e.builder, e.loc, input.type(), stats, stats, kind,
                     e.materialize(input), gain, shift, llvm::APFloat(eps));
  c.out(0, e.reshape(Val(op.getY()), x.shape()));
  if (!c.wants(1))
    return;
  Shape kept(x.shape());
  for (int64_t d = x.rank(), left = count; d-- > 0 && left > 1;
       left /= x.dim(d))
    kept[d] = 1;
  if (numElements(kept) == rows) {
    c.out(1, e.reshape(Val(op.getMean()), kept));
    c.out(2, e.reshape(Val(op.getRstd()), kept));
  }
}

/// An optional weight in x's element type.
Val affine(Call &c, llvm::StringRef name, Val x) {
  return c.has(name) ? c.emit.convert(c.tensor(name), x.element()) : Val();
}

/// The number of elements of `normalized_shape`, which must be a suffix of x's
/// shape; 0 after a failure.
int64_t normalized(Call &c, Val x) {
  Shape shape = c.ints("normalized_shape");
  if (x && !c.emit.failed() && !shape.empty() &&
      static_cast<int64_t>(shape.size()) <= x.rank() &&
      x.shape().take_back(shape.size()) == llvm::ArrayRef(shape))
    return numElements(shape);
  if (x)
    c.fail("normalized_shape " + describe(shape) + " is not a suffix of " +
           describe(x.type()));
  return 0;
}

void layerNorm(Call &c) {
  Val x = c.tensor("input");
  if (int64_t count = normalized(c, x))
    norm(c, NormKind::layer, x, count, affine(c, "weight", x),
         affine(c, "bias", x), c.number("eps"));
}

/// The default of eps is that of the element type.
void rmsNorm(Call &c) {
  Val x = c.tensor("input");
  int64_t count = normalized(c, x);
  if (!count)
    return;
  double eps = x.element().isF64() ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon();
  norm(c, NormKind::rms, x, count, affine(c, "weight", x), Val(),
       c.has("eps") ? c.number("eps") : eps);
}

/// Each group of channels of each sample is one row.
void groupNorm(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("input");
  int64_t groups = c.integer("num_groups");
  if (!x || x.rank() < 2 || groups < 1 || x.dim(1) % groups) {
    c.fail("channels do not divide into num_groups=" + llvm::Twine(groups));
    return;
  }
  Val rows = e.reshape(
      x, {x.dim(0), groups, numElements(x.shape().drop_front(1)) / groups});
  norm(c, NormKind::layer, rows, rows.dim(2), Val(), Val(), c.number("eps"));
  Val y = e.reshape(c.results[0], x.shape());
  Shape shape(x.rank(), 1);
  shape[1] = x.dim(1);
  if (c.has("weight"))
    y = e.binary(BinaryKind::mul, y, e.reshape(affine(c, "weight", x), shape));
  if (c.has("bias"))
    y = e.binary(BinaryKind::add, y, e.reshape(affine(c, "bias", x), shape));
  c.out(y);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// `reduced` over `dims`, with unit dimensions if the call has keepdim.
Val kept(Call &c, Val reduced, Val x, llvm::ArrayRef<int64_t> dims) {
  return c.flag("keepdim") ? c.emit.keepDims(reduced, x, dims) : reduced;
}

Val squared(Emitter &e, Val x) { return e.binary(BinaryKind::mul, x, x); }

template <ReduceKind kind, bool isMean = false> void reduce(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  Type element = c.resultElement();
  if (!x || !element)
    return;
  x = e.convert(x, element);
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return;
  c.out(kept(c, isMean ? e.mean(x, dims) : e.reduce(kind, x, dims), x, dims));
}

void logSumExp(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x)
    return;
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return;
  Val top = e.reduce(ReduceKind::max, x, dims);
  Val shifted = e.binary(BinaryKind::sub, x, e.keepDims(top, x, dims));
  Val sum = e.reduce(ReduceKind::sum, e.unary(UnaryKind::exp, shifted), dims);
  c.out(kept(c, e.binary(BinaryKind::add, e.unary(UnaryKind::log, sum), top), x,
             dims));
}

/// The number that a variance subtracts from the count: `correction`, or 1 if
/// `unbiased`.
double correctionOf(Call &c) {
  if (!c.target().ends_with(".correction"))
    return c.flag("unbiased") ? 1.0 : 0.0;
  return c.has("correction") ? c.number("correction") : 1.0;
}

/// sum((x - mean)^2) / (n - correction), or its root, and optionally the mean.
template <bool isRoot, bool withMean> void variance(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x)
    return;
  Shape dims = c.dims("dim", x.rank());
  double correction = correctionOf(c);
  if (e.failed())
    return;
  double count = 1;
  for (int64_t d : dims)
    count *= static_cast<double>(x.dim(d));
  Val mean = e.mean(x, dims);
  Val spread =
      squared(e, e.binary(BinaryKind::sub, x, e.keepDims(mean, x, dims)));
  Val result =
      e.binary(BinaryKind::mul, e.reduce(ReduceKind::sum, spread, dims),
               1.0 / std::max(count - correction, 0.0));
  if (isRoot)
    result = e.unary(UnaryKind::sqrt, result);
  c.out(0, kept(c, result, x, dims));
  if (withMean)
    c.out(1, kept(c, mean, x, dims));
}

void vectorNorm(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  double order = c.number("ord");
  if (!x)
    return;
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return;
  if (order == 1.0)
    return c.out(
        kept(c, e.reduce(ReduceKind::sum, e.unary(UnaryKind::abs, x), dims), x,
             dims));
  if (order != 2.0) {
    c.fail("order " + llvm::Twine(std::to_string(order)) +
           " is not supported; accepted: 1, 2");
    return;
  }
  Val sum = e.reduce(ReduceKind::sum, squared(e, x), dims);
  c.out(kept(c, e.unary(UnaryKind::sqrt, sum), x, dims));
}

/// Whether any element (or all) differs from zero.
template <bool isAll> void anyOf(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x)
    return;
  Shape dims = c.dims("dim", x.rank());
  if (e.failed())
    return;
  // Count the elements that are zero, or those that are not.
  Val hit = e.compare(isAll ? CompareKind::eq : CompareKind::ne, x,
                      e.scalar(0, x.element()));
  Val count =
      e.reduce(ReduceKind::sum, e.convert(hit, e.builder.getI64Type()), dims);
  c.out(kept(c,
             e.compare(isAll ? CompareKind::eq : CompareKind::gt, count,
                       e.scalar(0, e.builder.getI64Type())),
             x, dims));
}

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

/// The module computes larger sums.
constexpr int64_t kMaxKnown = int64_t(1) << 22;

Val swappedToLast(Emitter &e, Val x, int64_t dim) {
  return x && x.rank() > 0 ? e.swapDims(x, dim, x.rank() - 1) : x;
}

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

void cumsum(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  Type element = c.resultElement();
  if (!x || !element || x.rank() == 0)
    return c.out(x);
  int64_t dim = c.dimOf("dim", x.rank());
  if (e.failed())
    return;
  Val rows = swappedToLast(e, e.convert(x, element), dim);
  bool isKnown = rows && rows.constant && rows.constant->size() <= kMaxKnown;
  c.out(swappedToLast(
      e, isKnown ? knownSums(*rows.constant) : e.cumsum(rows, false, false),
      dim));
}

void topk(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x || x.rank() == 0)
    return;
  int64_t dim = c.dimOf("dim", x.rank()), k = c.integer("k");
  if (e.failed())
    return;
  auto [values, indices] =
      e.topk(swappedToLast(e, x, dim), k, c.flag("largest"));
  c.out(0, swappedToLast(e, values, dim));
  c.out(1, swappedToLast(e, indices, dim));
}

void sort(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x || x.rank() == 0)
    return;
  int64_t dim = c.dimOf("dim", x.rank());
  if (e.failed())
    return;
  auto [values, indices] =
      e.topk(swappedToLast(e, x, dim), x.dim(dim), c.flag("descending"));
  c.out(0, swappedToLast(e, values, dim));
  c.out(1, swappedToLast(e, indices, dim));
}

/// The greatest (least) element along one dimension and its position: the first
/// one on ties, or the first NaN. Only that element gets the gradient.
template <bool isMax, bool withValue> void extreme(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x || x.rank() == 0)
    return;
  Shape result(x.shape());
  if (!c.has("dim")) {
    x = e.reshape(x, {numElements(x.shape())});
    result.assign(result.size(), 1);
  }
  int64_t dim = c.has("dim") ? c.dimOf("dim", x.rank()) : 0;
  if (e.failed())
    return;
  if (numElements(x.shape()) == 0) {
    c.fail("has no elements in " + describe(x.type()));
    return;
  }
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
    Val here = e.compare(CompareKind::eq, e.iota(x.shape(), dim), place);
    Val alone = e.select(here, x, e.scalar(0, x.element()));
    c.out(0, e.reshape(e.reduce(ReduceKind::sum, alone, {dim}), result));
  }
  c.out(withValue ? 1 : 0, e.reshape(place, result));
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
  t["topk.default"] = {"self, k, dim=-1, largest=True, sorted=True", topk};
  t["sort.default"] = {"self, dim=-1, descending=False", sort};
  llvm::StringRef one = "self, dim=None, keepdim=False";
  t["argmax.default"] = {one, extreme<true, false>};
  t["argmin.default"] = {one, extreme<false, false>};
  t["max.dim"] = {one, extreme<true, true>};
  t["min.dim"] = {one, extreme<false, true>};
}

} // namespace dpc::frontend::pt2
