//===- Resample.cpp - Resampling of dimensions ----------------------------===//
#include "frontends/emit/Resample.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

double sourceOf(const ResampledAxis &axis, const ResampleMode &mode,
                int64_t i) {
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

/// Returns the weight of an input at distance `x`: linear, or Keys' cubic
/// convolution with parameter `a`.
double kernelAt(double x, bool cubic, double a) {
  x = std::abs(x);
  if (!cubic)
    return std::max(0.0, 1 - x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/// The weight of each input position for output position `i`.
std::vector<double> weightsOf(const ResampledAxis &axis,
                              const ResampleMode &mode, int64_t i) {
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

Val interpolated(Emitter &e, Val x, const ResampledAxis &axis,
                 const ResampleMode &mode) {
  std::vector<std::vector<double>> weights;
  for (int64_t i = 0; i < axis.out; ++i)
    weights.push_back(weightsOf(axis, mode, i));
  return mixed(e, x, axis.dim, weights);
}

Val picked(Emitter &e, Val x, const ResampledAxis &axis,
           const ResampleMode &mode) {
  Shape positions;
  for (int64_t i = 0; i < axis.out; ++i)
    positions.push_back(std::clamp<int64_t>(
        nearestOf(sourceOf(axis, mode, i), mode.nearest), 0, axis.in - 1));
  return e.take(x, axis.dim, positions);
}

/// Replaces elements whose coordinate is outside the input by `mode.outside`.
Val filledOutside(Emitter &e, Val x, const ResampledAxis &axis,
                  const ResampleMode &mode) {
  std::vector<Scalar> inside(axis.out);
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = sourceOf(axis, mode, i);
    inside[i].i = at >= 0 && at <= static_cast<double>(axis.in - 1);
  }
  Shape shape(x.rank(), 1);
  shape[axis.dim] = axis.out;
  Val keep(ConstTensor::dense(e.boolean(), shape, inside));
  return e.select(keep, x, mode.outside);
}

} // namespace

Val mixed(Emitter &e, Val x, int64_t dim,
          const std::vector<std::vector<double>> &weights) {
  if (!x)
    return {};
  int64_t in = x.dim(dim), out = static_cast<int64_t>(weights.size());
  std::vector<Scalar> values(in * out);
  for (int64_t i = 0; i < out; ++i)
    for (auto [n, weight] : llvm::enumerate(weights[i]))
      values[n * out + i] = makeScalar(weight, x.element());
  Val matrix(ConstTensor::dense(x.element(), {in, out}, values));
  Val last = e.swapDims(x, dim, x.rank() - 1);
  Shape shape(last.shape());
  Val rows = e.reshape(last, {numElements(shape) / in, in});
  shape.back() = out;
  return e.swapDims(e.reshape(e.matmul(rows, matrix), shape), dim,
                    x.rank() - 1);
}

Val resampled(Emitter &e, Val x, llvm::ArrayRef<ResampledAxis> axes,
              const ResampleMode &mode) {
  for (const ResampledAxis &axis : axes) {
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

} // namespace dpc::frontend
