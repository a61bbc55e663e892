//===- SpatialNorms.cpp - Normalizations over channels --------------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Normalizes each of `groups` groups of channels of x [N, C, ..] over all
/// elements of the group.
Val normalizeGroups(Emitter &e, Val x, int64_t groups, double eps) {
  if (!x)
    return {};
  int64_t columns = numElements(x.shape()) / (x.dim(0) * groups);
  Val rows = e.reshape(x, {x.dim(0), groups, columns});
  Type element = x.element().isF64() ? x.element() : e.builder.getF32Type();
  auto stats = RankedTensorType::get({x.dim(0), groups}, element);
  auto op = NormOp::create(e.builder, e.loc, rows.type(), stats, stats,
                           NormKind::layer, e.materialize(rows), Value(),
                           Value(), llvm::APFloat(eps));
  return e.reshape(Val(op.getY()), x.shape());
}

/// `v`, which has one element per channel or per group, as [1, C, 1..].
Val perChannel(Emitter &e, Val v, Val x) {
  if (!v)
    return {};
  int64_t channels = x.dim(1), given = numElements(v.shape());
  Val wide = e.reshape(
      e.broadcastTo(e.reshape(v, {given, 1}), {given, channels / given}),
      {channels});
  Shape shape(x.rank(), 1);
  shape[1] = channels;
  return e.reshape(wide, shape);
}

void scaleAndShift(NodeContext &c, Val y, Val x) {
  Emitter &e = c.emit;
  y = e.binary(BinaryKind::mul, y, perChannel(e, c.in(1), x));
  c.out(e.binary(BinaryKind::add, y, perChannel(e, c.in(2), x)));
}

void groupNorm(NodeContext &c) {
  Val x = c.in(0), scale = c.in(1);
  int64_t groups = c.intAttr("num_groups", 0);
  if (!x || !scale)
    return;
  bool fits = x.rank() >= 2 && groups > 0 && x.dim(1) % groups == 0;
  if (!fits || x.dim(1) % numElements(scale.shape())) {
    c.fail("num_groups=" + llvm::Twine(groups) + " does not fit " +
           describe(x.type()) + " with scales " + describe(scale.type()));
    return;
  }
  scaleAndShift(
      c, normalizeGroups(c.emit, x, groups, c.floatAttr("epsilon", 1e-5)), x);
}

void instanceNorm(NodeContext &c) {
  Val x = c.in(0);
  if (!x)
    return;
  if (x.rank() < 3) {
    c.fail("input " + describe(x.type()) + " has no spatial dimensions");
    return;
  }
  scaleAndShift(
      c, normalizeGroups(c.emit, x, x.dim(1), c.floatAttr("epsilon", 1e-5)), x);
}

/// (x - mean) / (deviation + 1e-9) over `axes`.
void meanVarianceNorm(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  Shape axes = c.hasAttr("axes") ? c.intsAttr("axes") : Shape{0, 2, 3};
  if (!x)
    return;
  for (int64_t &a : axes)
    a = c.axis(a, x.rank());
  if (e.failed())
    return;
  llvm::sort(axes);
  Val centered =
      e.binary(BinaryKind::sub, x, e.keepDims(e.mean(x, axes), x, axes));
  Val variance = e.mean(e.binary(BinaryKind::mul, centered, centered), axes);
  Val deviation = e.keepDims(e.unary(UnaryKind::sqrt, variance), x, axes);
  c.out(e.binary(BinaryKind::div, centered,
                 e.binary(BinaryKind::add, deviation, 1e-9)));
}

/// x / (bias + alpha / size * sum of squares of neighbouring channels)^beta.
void localResponseNorm(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  int64_t size = c.intAttr("size", 1);
  if (!x)
    return;
  if (x.rank() < 2 || size < 1) {
    c.fail("size " + llvm::Twine(size) + " does not fit " + describe(x.type()));
    return;
  }
  Val square = e.binary(BinaryKind::mul, x, x), sum;
  for (int64_t n = 0; n < size; ++n) {
    // Channel i reads channel i + shift.
    int64_t shift = n - (size - 1) / 2, channels = x.dim(1);
    if (std::abs(shift) >= channels)
      continue;
    Val part = e.sliceDim(square, 1, std::max<int64_t>(shift, 0),
                          channels - std::abs(shift));
    Shape zeros(x.shape());
    zeros[1] = std::abs(shift);
    Val empty = e.splat(0, x.element(), zeros);
    part = e.concat(shift < 0 ? llvm::ArrayRef<Val>{empty, part}
                              : llvm::ArrayRef<Val>{part, empty},
                    1);
    sum = sum ? e.binary(BinaryKind::add, sum, part) : part;
  }
  double alpha = c.floatAttr("alpha", 1e-4) / static_cast<double>(size);
  Val base = e.binary(BinaryKind::add, e.binary(BinaryKind::mul, sum, alpha),
                      c.floatAttr("bias", 1.0));
  c.out(e.binary(BinaryKind::div, x,
                 e.binary(BinaryKind::pow, base, c.floatAttr("beta", 0.75))));
}

/// x / |x|_p along one dimension; 0 where the norm is 0.
void lpNorm(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  int64_t p = c.intAttr("p", 2);
  if (!x)
    return;
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (p != 1 && p != 2)
    c.fail("p=" + llvm::Twine(p) + " is not supported; accepted: 1, 2");
  if (e.failed())
    return;
  Val size =
      p == 1 ? e.unary(UnaryKind::abs, x) : e.binary(BinaryKind::mul, x, x);
  Val norm = e.reduce(ReduceKind::sum, size, {axis});
  if (p == 2)
    norm = e.unary(UnaryKind::sqrt, norm);
  norm = e.keepDims(norm, x, {axis});
  if (!norm)
    return;
  Val isZero = e.compare(CompareKind::eq, norm, e.scalar(0, norm.element()));
  Val safe = e.select(isZero, e.scalar(1, norm.element()), norm);
  c.out(e.binary(BinaryKind::div, x, safe));
}

} // namespace

void addSpatialNormOps(OpTable &table) {
  table["GroupNormalization"] = groupNorm;
  table["InstanceNormalization"] = instanceNorm;
  table["MeanVarianceNormalization"] = meanVarianceNorm;
  table["LRN"] = localResponseNorm;
  table["LpNormalization"] = lpNorm;
}

} // namespace dpc::frontend
