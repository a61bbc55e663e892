//===- SpatialNorms.cpp - Normalizations over channels --------------------===//
#include "frontends/emit/Layers.h"
#include "frontends/emit/Windows.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// `v`, which has one element per channel or per group, as [1, C, 1..].
Val perChannel(Emitter &e, Val v, Val x) {
  if (!v)
    return {};
  int64_t channels = x.dim(1), given = numElements(v.shape());
  Val wide = e.reshape(
      e.broadcastTo(e.reshape(v, {given, 1}), {given, channels / given}),
      {channels});
  return alongChannels(e, wide, x);
}

/// Normalizes `groups` groups of channels; inputs 1 and 2 are scale and bias.
Val normalized(NodeContext &c, Val x, int64_t groups) {
  Emitter &e = c.emit;
  Val y = normalizedGroups(e, x, groups, c.floatAttr("epsilon", 1e-5));
  y = e.mul(y, perChannel(e, c.in(1), x));
  return e.add(y, perChannel(e, c.in(2), x));
}

Val groupNorm(NodeContext &c, Val x, Val scale) {
  int64_t groups = c.intAttr("num_groups", 0);
  bool fits = x.rank() >= 2 && groups > 0 && x.dim(1) % groups == 0;
  if (!fits || x.dim(1) % numElements(scale.shape()))
    return c.fail("num_groups={0} does not fit {1} with scales {2}", groups, x,
                  scale);
  return normalized(c, x, groups);
}

Val instanceNorm(NodeContext &c, Val x) {
  if (x.rank() < 3)
    return c.fail("input {0} has no spatial dimensions", x);
  return normalized(c, x, x.dim(1));
}

/// (x - mean) / (deviation + 1e-9) over `axes`.
Val meanVarianceNorm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  Shape axes = c.hasAttr("axes") ? c.intsAttr("axes") : Shape{0, 2, 3};
  for (int64_t &a : axes)
    a = c.axis(a, x.rank());
  if (e.failed())
    return {};
  llvm::sort(axes);
  Val centered = e.sub(x, e.keepDims(e.mean(x, axes), x, axes));
  Val variance = e.mean(e.mul(centered, centered), axes);
  Val deviation = e.keepDims(e.sqrt(variance), x, axes);
  return e.div(centered, e.add(deviation, 1e-9));
}

/// x / (bias + alpha / size * sum of squares of neighbouring channels)^beta.
Val localResponseNorm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t size = c.intAttr("size", 1);
  if (x.rank() < 2 || size < 1)
    return c.fail("size {0} does not fit {1}", size, x);
  Val square = e.mul(x, x), sum;
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
    sum = sum ? e.add(sum, part) : part;
  }
  double alpha = c.floatAttr("alpha", 1e-4) / static_cast<double>(size);
  Val base = e.add(e.mul(sum, alpha), c.floatAttr("bias", 1.0));
  return e.div(x, e.pow(base, c.floatAttr("beta", 0.75)));
}

/// x / |x|_p along one dimension; 0 where the norm is 0.
Val lpNorm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t p = c.intAttr("p", 2);
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (p != 1 && p != 2)
    c.fail("p={0} is not supported; accepted: 1, 2", p);
  if (e.failed())
    return {};
  Val size = p == 1 ? e.abs(x) : e.mul(x, x);
  Val norm = e.reduce(ReduceKind::sum, size, {axis});
  if (p == 2)
    norm = e.sqrt(norm);
  norm = e.keepDims(norm, x, {axis});
  return e.div(x, e.select(e.eq(norm, 0), 1, norm));
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
