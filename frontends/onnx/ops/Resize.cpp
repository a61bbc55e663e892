//===- Resize.cpp - Resize, Upsample and GridSample -----------------------===//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Resample.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

using Axis = ResampledAxis;
using Mode = ResampleMode;

/// Returns the elements of input `i`, which must be known at import time.
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

void setScales(llvm::MutableArrayRef<Axis> axes,
               const std::vector<double> &scales) {
  for (auto [axis, scale] : llvm::zip(axes, scales)) {
    axis.scale = scale;
    axis.out =
        static_cast<int64_t>(std::floor(static_cast<double>(axis.in) * scale));
  }
}

/// Sets the output size of each axis, and its scale. With the policies
/// not_larger and not_smaller, all axes get the same scale.
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

/// Notes a failure unless there are `count` numbers.
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

/// Implements Upsample, and Resize before operator set 10.
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

//===----------------------------------------------------------------------===//
// Sampling of images at grid points
//
// A grid point is a weighted sum over the nearest 1, 2 or 4 positions (taps) in
// each dimension. The pixels at these positions are looked up in a table.
//===----------------------------------------------------------------------===//

enum class Padding { Zeros, Border, Reflection };

/// A position along one dimension that contributes to a grid point.
struct Tap {
  Val at;     ///< valid positions [N, points]
  Val weight; ///< [N, points]
};

class Sampler {
public:
  Sampler(NodeContext &c, Val x, Val grid)
      : c(c), e(c.emit), x(x), grid(grid) {}

  void run() {
    if (!readMode())
      return;
    int64_t dims = x.rank() - 2;
    points = numElements(grid.shape()) / (x.dim(0) * dims);
    std::vector<std::vector<Tap>> taps;
    taps.reserve(dims);
    for (int64_t d = 0; d < dims; ++d)
      taps.push_back(tapsOf(d));
    if (e.failed())
      return;
    Val sum = weighted(taps, 0, Val(), Val());
    if (!sum)
      return;
    // [N, points, C] -> [N, C, points..]
    Shape shape = {x.dim(0), x.dim(1)};
    shape.append(grid.shape().begin() + 1, grid.shape().end() - 1);
    c.out(e.reshape(e.transpose(sum, {0, 2, 1}), shape));
  }

private:
  bool readMode() {
    mode = c.stringAttr("mode", c.opset() < 20 ? "bilinear" : "linear");
    if (mode == "bilinear")
      mode = "linear";
    if (mode == "bicubic")
      mode = "cubic";
    llvm::StringRef name = c.stringAttr("padding_mode", "zeros");
    padding = name == "border"       ? Padding::Border
              : name == "reflection" ? Padding::Reflection
                                     : Padding::Zeros;
    corners = c.intAttr("align_corners", 0) != 0;
    if (mode != "nearest" && mode != "linear" && mode != "cubic")
      c.fail("mode '{0}' is not known; accepted: nearest, linear, cubic", mode);
    if (x.rank() < 3 || grid.rank() != x.rank() || grid.dim(0) != x.dim(0) ||
        grid.shape().back() != x.rank() - 2)
      c.fail("grid {0} does not fit {1}", grid, x);
    return !e.failed();
  }

  /// Reflects positions outside [low, high], as between two mirrors.
  Val reflected(Val v, double low, double high) {
    double period = 2 * (high - low);
    Val from = e.abs(e.add(v, -low));
    if (period == 0 || !from)
      return from ? e.splat(low, v.element(), v.shape()) : Val();
    from = e.rem(from, period);
    return e.add(e.minimum(from, e.sub(period, from)), low);
  }

  /// Moves positions in dimension d into its range, by the padding mode.
  Val inside(Val v, int64_t d) {
    auto size = static_cast<double>(x.dim(d + 2));
    double edge = corners ? 0 : 0.5;
    if (padding == Padding::Reflection)
      v = reflected(v, -edge, size - 1 + edge);
    return e.clamp(v, 0, size - 1);
  }

  /// Returns the coordinates [N, points] of the grid points in dimension d.
  Val placesOf(int64_t d) {
    int64_t last = grid.rank() - 1;
    Val g = e.reshape(e.sliceDim(grid, last, x.rank() - 3 - d, 1),
                      {x.dim(0), points});
    auto size = static_cast<double>(x.dim(d + 2));
    g = e.convert(g, x.element());
    return corners ? e.mul(e.add(g, 1), (size - 1) / 2)
                   : e.mul(e.add(e.mul(e.add(g, 1), size), -1), 0.5);
  }

  Tap tap(Val at, Val weight, int64_t d) {
    if (padding != Padding::Zeros)
      return {inside(at, d), weight};
    int64_t size = x.dim(d + 2);
    Val counted = e.select(e.inRange(at, size), weight, 0);
    return {e.clamp(at, 0, size - 1), counted};
  }

  std::vector<Tap> tapsOf(int64_t d) {
    Val v = placesOf(d);
    if (mode == "nearest")
      v = e.round(v);
    auto size = static_cast<double>(x.dim(d + 2));
    double edge = corners ? 0 : 0.5;
    if (padding == Padding::Border)
      v = e.clamp(v, 0, size - 1);
    else if (padding == Padding::Reflection)
      v = reflected(v, -edge, size - 1 + edge);
    if (!v)
      return {};
    Val one = e.splat(1, v.element(), v.shape());
    if (mode == "nearest")
      return {tap(v, one, d)};
    Val low = e.floor(v);
    Val t = e.sub(v, low);
    if (mode == "linear")
      return {tap(low, e.sub(1, t), d), tap(e.add(low, 1), t, d)};
    return {tap(e.add(low, -1), far(e.add(t, 1)), d), tap(low, near(t), d),
            tap(e.add(low, 1), near(e.sub(1, t)), d),
            tap(e.add(low, 2), far(e.sub(2, t)), d)};
  }

  // Keys' cubic convolution with a = -0.75.
  static constexpr double kA = -0.75;
  Val near(Val t) { // |t| <= 1
    Val inner = e.add(e.mul(t, kA + 2), -(kA + 3));
    return e.add(e.mul(e.mul(inner, t), t), 1);
  }
  Val far(Val t) { // 1 <= |t| <= 2
    Val inner = e.add(e.mul(t, kA), -5 * kA);
    inner = e.add(e.mul(inner, t), 8 * kA);
    return e.add(e.mul(inner, t), -4 * kA);
  }

  /// Sums pixels times weights over all taps of dimensions `d` and later. `row`
  /// and `weight` are the row number and weight from earlier dimensions.
  Val weighted(const std::vector<std::vector<Tap>> &taps, size_t d, Val row,
               Val weight) {
    if (d == taps.size())
      return pixels(row, weight);
    Val sum;
    for (const Tap &one : taps[d]) {
      Val at = e.convert(one.at, e.i64());
      Val next = row ? e.add(e.mul(row, x.dim(d + 2)), at) : at;
      Val part = weighted(taps, d + 1, next,
                          weight ? e.mul(weight, one.weight) : one.weight);
      sum = sum ? e.add(sum, part) : part;
    }
    return sum;
  }

  Val pixels(Val row, Val weight) {
    int64_t batch = x.dim(0), channels = x.dim(1);
    int64_t size = numElements(x.shape().drop_front(2));
    Val table = e.reshape(e.transpose(x, channelsLast(x.rank())),
                          {batch * size, channels});
    row = e.add(row, e.mul(e.iota({batch, points}, 0), size));
    return e.mul(e.embedding(table, row),
                 e.reshape(weight, {batch, points, 1}));
  }

  NodeContext &c;
  Emitter &e;
  Val x, grid;
  llvm::StringRef mode;
  Padding padding = Padding::Zeros;
  bool corners = false;
  int64_t points = 0;
};

Val gridSample(NodeContext &c, Val x, Val grid) {
  if (!x.isFloat())
    return c.fail("input {0} must hold floats", x);
  Sampler(c, x, grid).run();
  return {};
}

} // namespace

void addResizeOps(OpTable &table) {
  table["Resize"] = resize;
  table["Upsample"] = upsample;
  table["GridSample"] = gridSample;
}

} // namespace dpc::frontend
