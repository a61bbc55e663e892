//===- Spectral.cpp - Discrete Fourier transforms -------------------------===//
//
// The lengths are fixed, so a transform of one dimension multiplies by a
// constant matrix. The results are complex (Complex.h).
//
//===----------------------------------------------------------------------===//
#include "frontends/torch/Complex.h"

#include "frontends/emit/Resample.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// Longer transforms are refused, because their matrices are large.
constexpr int64_t kMostPoints = 4096;

/// A transform of one dimension: `in` positions of the operand become `out`.
struct Transform {
  int64_t dim, points, in, out;
  double sign;  ///< -1 forward, 1 inverse
  double scale; ///< of every result
};

enum class Wave { cosine, sine };

/// Replaces dimension `dim` of `x` by sums over its positions n times
/// scale wave(2 pi k n / points). `weightOf(n)` weighs the positions.
Val waved(Emitter &e, Val x, const Transform &t, Wave wave,
          double (*weightOf)(const Transform &, int64_t)) {
  std::vector<std::vector<double>> weights;
  for (int64_t k = 0; k < t.out; ++k) {
    weights.emplace_back();
    for (int64_t n = 0; n < t.in; ++n) {
      double angle = 2 * M_PI * static_cast<double>(k * n % t.points) /
                     static_cast<double>(t.points);
      double value = wave == Wave::cosine ? std::cos(angle) : std::sin(angle);
      weights.back().push_back(t.scale * weightOf(t, n) * value);
    }
  }
  return mixed(e, x, t.dim, weights);
}

double whole(const Transform &, int64_t) { return 1; }

/// A half spectrum stands for its mirror image, too.
double mirrored(const Transform &t, int64_t n) {
  return n == 0 || 2 * n == t.points ? 1 : 2;
}

Val transformed(Emitter &e, const Val &x, const Transform &t) {
  if (!isComplex(x))
    return pairOf(waved(e, x, t, Wave::cosine, whole),
                  e.mul(waved(e, x, t, Wave::sine, whole), t.sign));
  Val re = real(x), im = imaginary(x);
  Val crossed = e.mul(waved(e, im, t, Wave::sine, whole), t.sign);
  return pairOf(e.sub(waved(e, re, t, Wave::cosine, whole), crossed),
                e.add(waved(e, im, t, Wave::cosine, whole),
                      e.mul(waved(e, re, t, Wave::sine, whole), t.sign)));
}

/// Crops a dimension, or appends zeros.
Val resized(Emitter &e, const Val &x, int64_t dim, int64_t size) {
  if (isComplex(x))
    return pairOf(resized(e, real(x), dim, size),
                  resized(e, imaginary(x), dim, size));
  if (!x || size <= x.dim(dim))
    return e.sliceDim(x, dim, 0, size);
  Shape shape(x.shape());
  shape[dim] = size;
  return e.pad(x, Shape(x.rank(), 0), shape, Shape(x.rank(), 1));
}

/// The factor of a transform of `points` positions.
double scaleOf(Call &c, int64_t points, bool isInverse) {
  std::string norm = c.has("norm") ? c.text("norm") : "backward";
  auto count = static_cast<double>(points);
  if (norm == "ortho")
    return 1 / std::sqrt(count);
  if (norm != "backward" && norm != "forward")
    c.fail("norm='{0}' is not known; accepted: backward, ortho, forward", norm);
  return (norm == "forward") != isInverse ? 1 / count : 1;
}

bool areFew(Call &c, int64_t points) {
  if (points < 1 || points > kMostPoints)
    c.fail("a transform of {0} points is not supported; accepted: 1 to {1}",
           points, kMostPoints);
  return !c.emit.failed();
}

Val alongDim(Call &c, Val x, int64_t dim, int64_t points, bool isInverse) {
  if (!areFew(c, points))
    return {};
  Transform t{dim,
              points,
              points,
              points,
              isInverse ? 1.0 : -1.0,
              scaleOf(c, points, isInverse)};
  return transformed(c.emit, resized(c.emit, x, dim, points), t);
}

int64_t rankOf(const Val &x) {
  return isComplex(x) ? real(x).rank() : x.rank();
}
int64_t sizeOf(const Val &x, int64_t d) {
  return isComplex(x) ? real(x).dim(d) : x.dim(d);
}

/// Real operands become floats of the result's parts.
bool isTransformable(Call &c, const Val &x) {
  bool fits = isComplex(x) || x.isFloat();
  if (!fits || rankOf(x) == 0)
    c.fail("needs floats of rank 1 or more");
  return !c.emit.failed();
}

template <bool isInverse> Val transform(Call &c, Val x) {
  if (!isTransformable(c, x))
    return {};
  int64_t dim = c.dimOf("dim", rankOf(x));
  return alongDim(c, x, dim, c.has("n") ? c.integer("n") : sizeOf(x, dim),
                  isInverse);
}

template <bool isInverse> Val transformDims(Call &c, Val x) {
  if (!isTransformable(c, x))
    return {};
  Shape sizes = c.has("s") ? c.ints("s") : Shape();
  Shape dims = c.has("dim") ? c.ints("dim") : Shape();
  if (dims.empty())
    dims = iotaDims(
        rankOf(x),
        sizes.empty() ? 0 : rankOf(x) - static_cast<int64_t>(sizes.size()));
  if (!sizes.empty() && sizes.size() != dims.size())
    return c.fail("s {0} does not fit dim {1}", sizes, dims);
  for (size_t i = 0; i < dims.size() && !c.emit.failed(); ++i) {
    int64_t dim = c.dim(dims[i], rankOf(x));
    bool isGiven = !sizes.empty() && sizes[i] != -1;
    x = alongDim(c, x, dim, isGiven ? sizes[i] : sizeOf(x, dim), isInverse);
  }
  return x;
}

/// The first half of the spectrum of a real tensor.
Val halfSpectrum(Call &c, Val x) {
  if (!isTransformable(c, x) || isComplex(x))
    return c.fail("needs a real tensor");
  int64_t dim = c.dimOf("dim", x.rank());
  int64_t points = c.has("n") ? c.integer("n") : x.dim(dim);
  if (!areFew(c, points))
    return {};
  Transform t{
      dim, points, points, points / 2 + 1, -1, scaleOf(c, points, false)};
  return transformed(c.emit, resized(c.emit, x, dim, points), t);
}

/// The real tensor of which `x` is half of the spectrum.
Val fromHalf(Call &c, Val x) {
  Emitter &e = c.emit;
  if (!isTransformable(c, x) || !isComplex(x))
    return c.fail("needs a complex tensor");
  int64_t dim = c.dimOf("dim", rankOf(x));
  int64_t points = c.has("n") ? c.integer("n") : 2 * (sizeOf(x, dim) - 1);
  if (!areFew(c, points))
    return {};
  Transform t{dim, points, points / 2 + 1, points, 1, scaleOf(c, points, true)};
  x = resized(e, x, dim, t.in);
  return e.sub(waved(e, real(x), t, Wave::cosine, mirrored),
               waved(e, imaginary(x), t, Wave::sine, mirrored));
}

} // namespace

void addSpectral(OperatorTable &t) {
  llvm::StringRef one = "self, n=None, dim=-1, norm=None";
  t["fft_fft.default"] = {one, transform<false>};
  t["fft_ifft.default"] = {one, transform<true>};
  t["fft_rfft.default"] = {one, halfSpectrum};
  t["fft_irfft.default"] = {one, fromHalf};
  llvm::StringRef two = "self, s=None, dim=-2 -1, norm=None";
  t["fft_fft2.default"] = {two, transformDims<false>};
  t["fft_ifft2.default"] = {two, transformDims<true>};
  llvm::StringRef all = "self, s=None, dim=None, norm=None";
  t["fft_fftn.default"] = {all, transformDims<false>};
  t["fft_ifftn.default"] = {all, transformDims<true>};
}

} // namespace dpc::frontend::pt2
