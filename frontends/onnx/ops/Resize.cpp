//===- Resize.cpp - Resize and Upsample -----------------------------------===//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Resample.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

using Axis = ResampledAxis;
using Mode = ResampleMode;

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// The elements of a constant input as numbers.
std::vector<double> numbersIn(NodeContext &c, int64_t i) {
  std::vector<double> numbers;
  Val v = c.in(i);
  if (v && !v.constant)
    c.fail("input {0} '{1}' is computed from data; it must be known at compile "
           "time",
           i, c.node.proto.input(i));
  for (int64_t n = 0; v && v.constant && n < v.constant->size(); ++n) {
    Scalar s = v.constant->at(n);
    numbers.push_back(v.isFloat() ? s.f : static_cast<double>(s.i));
  }
  return numbers;
}

/// Sets sizes from `scales`, one per axis.
void setScales(llvm::MutableArrayRef<Axis> axes,
               const std::vector<double> &scales) {
  for (auto [axis, scale] : llvm::zip(axes, scales)) {
    axis.scale = scale;
    axis.out =
        static_cast<int64_t>(std::floor(static_cast<double>(axis.in) * scale));
  }
}

/// Sets scales from `sizes`, one per axis; the policy may keep their ratio.
void setSizes(llvm::MutableArrayRef<Axis> axes,
              const std::vector<double> &sizes, llvm::StringRef policy) {
  double common = 0;
  for (auto [axis, size] : llvm::zip(axes, sizes)) {
    axis.out = static_cast<int64_t>(size);
    axis.scale = size / static_cast<double>(axis.in);
    if (common == 0 || (axis.scale < common) == (policy == "not_larger"))
      common = axis.scale;
  }
  if (policy != "not_larger" && policy != "not_smaller")
    return;
  for (Axis &axis : axes) {
    axis.scale = common;
    axis.out = static_cast<int64_t>(
        std::floor(common * static_cast<double>(axis.in) + 0.5));
  }
}

Mode modeOf(NodeContext &c) {
  bool old = c.opset() < 11;
  Mode mode;
  mode.kind = c.stringAttr("mode", "nearest");
  mode.coordinates = c.stringAttr("coordinate_transformation_mode",
                                  old ? "asymmetric" : "half_pixel");
  mode.nearest =
      c.stringAttr("nearest_mode", old ? "floor" : "round_prefer_floor");
  mode.cubicA = c.floatAttr("cubic_coeff_a", -0.75);
  mode.outside = c.floatAttr("extrapolation_value", 0);
  mode.excludeOutside = c.intAttr("exclude_outside", 0) != 0;
  mode.antialias = c.intAttr("antialias", 0) != 0;
  if (mode.kind != "nearest" && mode.kind != "linear" && mode.kind != "cubic")
    c.fail("mode '{0}' is not known; accepted: nearest, linear, cubic",
           mode.kind);
  return mode;
}

/// Whether `numbers` is empty or has one number per axis; notes a failure if
/// not.
bool fits(NodeContext &c, const std::vector<double> &numbers, size_t count,
          llvm::StringRef what) {
  if (numbers.size() == count)
    return true;
  c.fail("{0} has {1} numbers, expected {2}", what, numbers.size(), count);
  return false;
}

Val finish(NodeContext &c, Val x, llvm::ArrayRef<Axis> axes, const Mode &mode) {
  for (const Axis &axis : axes)
    if (axis.out < 1 || axis.scale <= 0)
      c.fail("dimension {0} of {1} would have size {2}", axis.dim, x, axis.out);
  if (!x.isFloat() && mode.kind != "nearest")
    c.fail("mode {0} requires floats, not {1}", mode.kind, x);
  return c.emit.failed() ? Val() : resampled(c.emit, x, axes, mode);
}

Val resize(NodeContext &c, Val x) {
  bool old = c.opset() < 11;
  Mode mode = modeOf(c);
  Shape dims = c.hasAttr("axes") ? c.intsAttr("axes") : iotaDims(x.rank());
  llvm::SmallVector<Axis> axes;
  for (int64_t d : dims) {
    int64_t dim = c.axis(d, x.rank());
    axes.push_back({dim, x.dim(dim), x.dim(dim), 1});
  }
  int64_t scalesAt = old ? 1 : 2;
  std::vector<double> scales, sizes, region;
  if (c.has(scalesAt))
    scales = numbersIn(c, scalesAt);
  if (c.has(3))
    sizes = numbersIn(c, 3);
  if (mode.coordinates == "tf_crop_and_resize" && c.has(1))
    region = numbersIn(c, 1);
  if (c.emit.failed() ||
      !(sizes.empty() ? fits(c, scales, axes.size(), "scales")
                      : fits(c, sizes, axes.size(), "sizes")))
    return {};
  if (sizes.empty())
    setScales(axes, scales);
  else
    setSizes(axes, sizes, c.stringAttr("keep_aspect_ratio_policy", "stretch"));
  if (region.size() == 2 * axes.size())
    for (auto [n, axis] : llvm::enumerate(axes)) {
      axis.begin = region[n];
      axis.end = region[n + axes.size()];
    }
  return finish(c, x, axes, mode);
}

/// The semantics of Resize before operator set 10.
Val upsample(NodeContext &c, Val x) {
  Mode mode{c.stringAttr("mode", "nearest"),
            "asymmetric",
            "floor",
            0,
            0,
            false,
            false};
  if (mode.kind == "bilinear")
    mode.kind = "linear";
  std::vector<double> scales;
  if (const auto *attribute = c.findAttr("scales"))
    scales.assign(attribute->floats().begin(), attribute->floats().end());
  else if (c.has(1))
    scales = numbersIn(c, 1);
  else
    scales = {1, 1, c.floatAttr("height_scale", 1),
              c.floatAttr("width_scale", 1)};
  llvm::SmallVector<Axis> axes;
  for (int64_t d = 0; d < x.rank(); ++d)
    axes.push_back({d, x.dim(d), x.dim(d), 1});
  if (c.emit.failed() || !fits(c, scales, axes.size(), "scales"))
    return {};
  setScales(axes, scales);
  return finish(c, x, axes, mode);
}

} // namespace

void addResizeOps(OpTable &table) {
  table["Resize"] = resize;
  table["Upsample"] = upsample;
}

} // namespace dpc::frontend
