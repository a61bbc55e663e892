//===- Resample.cpp - ATen's interpolation --------------------------------===//
#include "frontends/emit/Resample.h"
#include "frontends/torch/Call.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// The argument "scale_factors": one number per spatial dimension, or none.
std::vector<double> scaleFactors(Call &c) {
  for (const auto &[name, argument] : c.node.inputs)
    if (name == "scale_factors")
      return argument.numbers;
  return {};
}

/// The resampling of the spatial dimensions of `x`, which follow the first two.
llvm::SmallVector<ResampledAxis> axesOf(Call &c, Val x, bool alignsCorners) {
  llvm::SmallVector<ResampledAxis> axes;
  auto count = static_cast<size_t>(x.rank() - 2);
  std::vector<double> factors = scaleFactors(c);
  Shape sizes = c.has("output_size") ? c.ints("output_size") : Shape();
  if ((sizes.empty() ? factors.size() : sizes.size()) != count) {
    c.fail("no size for each spatial dimension of {0}", x);
    return {};
  }
  for (size_t n = 0; n < count; ++n) {
    auto dim = static_cast<int64_t>(n) + 2;
    auto in = static_cast<double>(x.dim(dim));
    double size = sizes.empty() ? std::floor(in * factors[n])
                                : static_cast<double>(sizes[n]);
    if (!(size >= 1 && size < 1e6)) {
      c.fail("dimension {0} of {1} cannot be resampled to that many positions",
             dim, x);
      return {};
    }
    // Uses the given scale, not that of the sizes, unless corners are aligned.
    bool isGiven = sizes.empty() && !alignsCorners;
    axes.push_back({dim, x.dim(dim), static_cast<int64_t>(size),
                    isGiven ? factors[n] : size / in});
  }
  return axes;
}

Val resample(Call &c, llvm::StringRef kind) {
  Val x = c.tensor("input");
  if (!x)
    return {};
  if (x.rank() < 3 || !x.isFloat())
    return c.fail("requires floats with spatial dimensions, not {0}", x);
  bool isNearest = kind == "nearest";
  bool alignsCorners = !isNearest && c.flag("align_corners");
  ResampleMode mode;
  mode.kind = kind;
  mode.coordinates = isNearest       ? "asymmetric"
                     : alignsCorners ? "align_corners"
                                     : "half_pixel";
  mode.nearest = "floor";
  mode.cubicA = -0.75;
  mode.outside = 0;
  mode.excludeOutside = mode.antialias = false;
  auto axes = axesOf(c, x, alignsCorners);
  return c.emit.failed() ? Val() : resampled(c.emit, x, axes, mode);
}

Val nearest(Call &c) { return resample(c, "nearest"); }
Val linear(Call &c) { return resample(c, "linear"); }
Val cubic(Call &c) { return resample(c, "cubic"); }

} // namespace

void addResample(OperatorTable &t) {
  llvm::StringRef plain = "input, output_size=None, scale_factors=None",
                  aligned = "input, output_size=None, align_corners=False, "
                            "scale_factors=None";
  for (const char *dims : {"1d", "2d", "3d"})
    t[std::string("upsample_nearest") + dims + ".vec"] = {plain, nearest};
  for (const char *name : {"linear1d", "bilinear2d", "trilinear3d"})
    t[std::string("upsample_") + name + ".vec"] = {aligned, linear};
  t["upsample_bicubic2d.vec"] = {aligned, cubic};
}

} // namespace dpc::frontend::pt2
