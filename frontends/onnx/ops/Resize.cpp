//===- Resize.cpp - Resampling along dimensions ---------------------------===//
//
// Sizes and scales are known while importing, so that resampling a dimension is
// a product with a constant matrix [in, out] (nearest: a choice of positions),
// one dimension after the other. Matmuls have gradients, sharding rules and
// kernels already.
//
//===----------------------------------------------------------------------===//
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// How one dimension is resampled.
struct Axis {
  int64_t dim;
  int64_t in, out;
  double scale;
  double begin = 0, end = 1; ///< of the region (tf_crop_and_resize)
};

/// Attributes, with the defaults of the node's operator set.
struct Mode {
  llvm::StringRef kind, coordinates, nearest;
  double cubicA;
  double outside;
  bool excludeOutside, antialias;
};

/// Where in the input output position `i` lies.
double sourceOf(const Axis &axis, const Mode &mode, int64_t i) {
  auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  auto at = static_cast<double>(i);
  double halfPixel = (at + 0.5) / axis.scale - 0.5;
  if (mode.coordinates == "asymmetric")
    return at / axis.scale;
  if (mode.coordinates == "align_corners") {
    double width = axis.scale * in;
    return width == 1 ? 0 : at * (in - 1) / (width - 1);
  }
  if (mode.coordinates == "pytorch_half_pixel")
    return axis.out == 1 ? 0 : halfPixel;
  if (mode.coordinates == "half_pixel_symmetric")
    return in / 2 * (1 - out / (axis.scale * in)) + halfPixel;
  if (mode.coordinates == "tf_crop_and_resize") {
    if (axis.out == 1)
      return 0.5 * (axis.begin + axis.end) * (in - 1);
    return axis.begin * (in - 1) +
           at * (axis.end - axis.begin) * (in - 1) / (out - 1);
  }
  return halfPixel;
}

int64_t nearestOf(double x, llvm::StringRef mode) {
  if (mode == "floor")
    return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil")
    return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(mode == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                          : std::ceil(x - 0.5));
}

/// The interpolation kernel at distance `x`; Keys' cubic convolution with
/// parameter `a`.
double kernelAt(double x, bool cubic, double a) {
  x = std::abs(x);
  if (!cubic)
    return std::max(0.0, 1 - x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/// Column `i` of the matrix: what output position `i` takes of each input.
std::vector<double> weightsOf(const Axis &axis, const Mode &mode, int64_t i) {
  std::vector<double> weights(axis.in, 0);
  double x = sourceOf(axis, mode, i);
  bool cubic = mode.kind == "cubic";
  double squeeze = mode.antialias ? std::min(axis.scale, 1.0) : 1.0;
  double reach = (cubic ? 2 : 1) / squeeze, sum = 0;
  for (auto n = static_cast<int64_t>(std::ceil(x - reach)),
            last = static_cast<int64_t>(std::floor(x + reach));
       n <= last; ++n) {
    bool inside = n >= 0 && n < axis.in;
    if (!inside && mode.excludeOutside)
      continue;
    double weight =
        kernelAt((static_cast<double>(n) - x) * squeeze, cubic, mode.cubicA);
    weights[std::clamp<int64_t>(n, 0, axis.in - 1)] += weight;
    sum += weight;
  }
  if (mode.antialias || mode.excludeOutside)
    for (double &weight : weights)
      weight /= sum;
  return weights;
}

/// `x` times the matrix of `axis`.
Val interpolated(Emitter &e, Val x, const Axis &axis, const Mode &mode) {
  std::vector<Scalar> values(axis.in * axis.out);
  for (int64_t i = 0; i < axis.out; ++i)
    for (auto [n, weight] : llvm::enumerate(weightsOf(axis, mode, i)))
      values[n * axis.out + i] = makeScalar(weight, x.element());
  Val matrix(ConstTensor::dense(x.element(), {axis.in, axis.out}, values));
  Val last = e.swapDims(x, axis.dim, x.rank() - 1);
  Shape shape(last.shape());
  Val rows = e.reshape(last, {numElements(shape) / axis.in, axis.in});
  shape.back() = axis.out;
  return e.swapDims(e.reshape(e.matmul(rows, matrix), shape), axis.dim,
                    x.rank() - 1);
}

Val picked(Emitter &e, Val x, const Axis &axis, const Mode &mode) {
  Shape positions;
  for (int64_t i = 0; i < axis.out; ++i)
    positions.push_back(std::clamp<int64_t>(
        nearestOf(sourceOf(axis, mode, i), mode.nearest), 0, axis.in - 1));
  return e.take(x, axis.dim, positions);
}

/// `mode.outside` where a region reaches beyond the input.
Val filledOutside(Emitter &e, Val x, const Axis &axis, const Mode &mode) {
  std::vector<Scalar> inside(axis.out);
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = sourceOf(axis, mode, i);
    inside[i].i = at >= 0 && at <= static_cast<double>(axis.in - 1);
  }
  Shape shape(x.rank(), 1);
  shape[axis.dim] = axis.out;
  Val keep(ConstTensor::dense(e.builder.getI1Type(), shape, inside));
  return e.select(keep, x, e.scalar(mode.outside, x.element()));
}

Val resampled(Emitter &e, Val x, llvm::ArrayRef<Axis> axes, const Mode &mode) {
  for (const Axis &axis : axes) {
    bool crops = mode.coordinates == "tf_crop_and_resize";
    if (axis.in == axis.out && axis.scale == 1 && !crops)
      continue;
    Val from = x;
    x = mode.kind == "nearest" ? picked(e, x, axis, mode)
                               : interpolated(e, x, axis, mode);
    if (x && crops)
      x = filledOutside(e, x, axis, mode);
    if (!x)
      return {};
  }
  return x;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Elements of a constant input as numbers.
std::vector<double> numbersIn(NodeContext &c, int64_t i) {
  std::vector<double> numbers;
  Val v = c.in(i);
  if (v && !v.constant)
    c.fail("input " + llvm::Twine(i) + " '" + c.node.proto.input(i) +
           "' is computed from data; it must be known when the model is "
           "compiled");
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
    c.fail("mode '" + mode.kind +
           "' is not known; accepted: nearest, linear, cubic");
  return mode;
}

/// Whether `numbers`, if any, has one number per axis; notes it.
bool fits(NodeContext &c, const std::vector<double> &numbers, size_t count,
          llvm::StringRef what) {
  if (numbers.size() == count)
    return true;
  c.fail(what + " has " + llvm::Twine(numbers.size()) + " numbers, expected " +
         llvm::Twine(count));
  return false;
}

void finish(NodeContext &c, Val x, llvm::ArrayRef<Axis> axes,
            const Mode &mode) {
  for (const Axis &axis : axes)
    if (axis.out < 1 || axis.scale <= 0)
      c.fail("dimension " + llvm::Twine(axis.dim) + " of " +
             describe(x.type()) + " would have size " + llvm::Twine(axis.out));
  if (!x.isFloat() && mode.kind != "nearest")
    c.fail("mode " + mode.kind + " takes floats, not " + describe(x.type()));
  if (!c.emit.failed())
    c.out(resampled(c.emit, x, axes, mode));
}

void resize(NodeContext &c) {
  Val x = c.in(0);
  if (!x)
    return;
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
    return;
  if (sizes.empty())
    setScales(axes, scales);
  else
    setSizes(axes, sizes, c.stringAttr("keep_aspect_ratio_policy", "stretch"));
  if (region.size() == 2 * axes.size())
    for (auto [n, axis] : llvm::enumerate(axes)) {
      axis.begin = region[n];
      axis.end = region[n + axes.size()];
    }
  finish(c, x, axes, mode);
}

/// What Resize was before operator set 10.
void upsample(NodeContext &c) {
  Val x = c.in(0);
  if (!x)
    return;
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
    return;
  setScales(axes, scales);
  finish(c, x, axes, mode);
}

} // namespace

void addResizeOps(OpTable &table) {
  table["Resize"] = resize;
  table["Upsample"] = upsample;
}

} // namespace dpc::frontend
