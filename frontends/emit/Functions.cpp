//===- Functions.cpp - Functions as series --------------------------------===//
#include "frontends/emit/Functions.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// x (c0 + c1 x^2 + c2 x^4 + ..), where closed forms suffer cancellation.
Val oddSeries(Emitter &e, Val x, llvm::ArrayRef<double> coefficients) {
  Val square = e.mul(x, x);
  Val sum = e.mul(square, coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back().drop_front()))
    sum = e.mul(square, e.add(sum, c));
  return e.mul(x, e.add(sum, coefficients.front()));
}

Val nearZero(Emitter &e, Val x, double bound, Val near, Val far) {
  return e.select(e.lt(e.abs(x), bound), near, far);
}

/// Returns atan(x) for |x| <= 1. Two halvings of the angle by
/// atan(x) = 2 atan(x / (1 + sqrt(1 + x^2))) lead to |x| < 1/5, where 12 terms
/// of the series are exact in f64.
Val arcTangentNear(Emitter &e, Val x) {
  constexpr int kHalvings = 2;
  for (int i = 0; i < kHalvings; ++i) {
    Val square = e.mul(x, x);
    Val root = e.sqrt(e.add(square, 1.0));
    x = e.div(x, e.add(root, 1.0));
  }
  llvm::SmallVector<double> series;
  for (int n = 0; n < 12; ++n)
    series.push_back((n % 2 ? -1.0 : 1.0) / (2 * n + 1));
  return e.mul(oddSeries(e, x, series), std::ldexp(1.0, kHalvings));
}

/// (exp(x) + sign exp(-x)) / 2.
Val expPair(Emitter &e, Val x, BinaryKind sign) {
  Val sum = e.binary(sign, e.exp(x), e.exp(e.neg(x)));
  return e.mul(sum, 0.5);
}

/// c0 + c1 x + c2 x^2 + ..
Val polynomial(Emitter &e, Val x, llvm::ArrayRef<double> coefficients) {
  Val sum = e.splat(coefficients.back(), x.element(), x.shape());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = e.add(e.mul(sum, x), c);
  return sum;
}

} // namespace

/// Returns atan(x), which is sign(x) pi / 2 - atan(1 / x) for |x| > 1.
Val arcTangent(Emitter &e, Val x) {
  if (!x)
    return {};
  Val one = e.scalar(1, x.element());
  Val isFar = e.gt(e.abs(x), one);
  // Dividing by 1 where the quotient is unused keeps the gradient finite.
  Val inverse = e.div(one, e.select(isFar, x, one));
  Val near = arcTangentNear(e, e.select(isFar, inverse, x));
  Val turned = e.sub(e.mul(e.sign(x), M_PI_2), near);
  return e.select(isFar, turned, near);
}

/// Returns atan(x / sqrt((1 - x)(1 + x))), which is accurate near 1.
Val arcSine(Emitter &e, Val x) {
  Val root = e.sqrt(e.mul(e.sub(1, x), e.add(1, x)));
  return arcTangent(e, e.div(x, root));
}

Val arcCosine(Emitter &e, Val x) { return e.sub(M_PI_2, arcSine(e, x)); }

Val sineHyperbolic(Emitter &e, Val x) {
  Val near = oddSeries(e, x, {1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040});
  return nearZero(e, x, 0.5, near, expPair(e, x, BinaryKind::sub));
}

Val cosineHyperbolic(Emitter &e, Val x) {
  return expPair(e, x, BinaryKind::add);
}

/// sign(x) log(|x| + sqrt(x^2 + 1)).
Val areaSine(Emitter &e, Val x) {
  Val root = e.sqrt(e.add(e.mul(x, x), 1.0));
  Val size = e.log(e.add(e.abs(x), root));
  Val far = e.mul(e.sign(x), size);
  Val near = oddSeries(e, x, {1.0, -1.0 / 6, 3.0 / 40, -15.0 / 336});
  return nearZero(e, x, 0.125, near, far);
}

/// log(x + sqrt(x - 1) sqrt(x + 1)).
Val areaCosine(Emitter &e, Val x) {
  auto root = [&](double shift) { return e.sqrt(e.add(x, shift)); };
  Val product = e.mul(root(-1.0), root(1.0));
  return e.log(e.add(x, product));
}

/// log((1 + x) / (1 - x)) / 2.
Val areaTangent(Emitter &e, Val x) {
  Val ratio = e.div(e.add(x, 1.0), e.sub(1, x));
  Val far = e.mul(e.log(ratio), 0.5);
  Val near = oddSeries(e, x, {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9});
  return nearZero(e, x, 0.125, near, far);
}

/// The quotient is at most 1, so no operand divides by 0.
Val arcTangentOf(Emitter &e, Val y, Val x) {
  Val high = e.abs(y), wide = e.abs(x);
  Val isSteep = e.gt(high, wide);
  Val less = e.select(isSteep, wide, high),
      more = e.select(isSteep, high, wide);
  if (!less || !more)
    return {};
  Val near = arcTangentNear(e, e.div(less, e.select(e.eq(more, 0), 1, more)));
  Val angle = e.select(isSteep, e.sub(M_PI_2, near), near);
  angle = e.select(e.lt(x, 0), e.sub(M_PI, angle), angle);
  return e.select(e.lt(y, 0), e.neg(angle), angle);
}

/// M. Giles, Approximating the erfinv function (2011): polynomials in w and
/// sqrt(w) with w = -log(1 - x^2), exact in f32. Newton's steps refine f64.
Val inverseErf(Emitter &e, Val x) {
  if (!x)
    return {};
  Val w = e.neg(e.log(e.mul(e.sub(1, x), e.add(x, 1))));
  Val isNear = e.lt(w, 5);
  Val near = polynomial(e, e.sub(e.select(isNear, w, 0), 2.5),
                        {1.50140941, 0.246640727, -0.00417768164,
                         -0.00125372503, 0.00021858087, -4.39150654e-06,
                         -3.5233877e-06, 3.43273939e-07, 2.81022636e-08});
  Val far = polynomial(e, e.sub(e.sqrt(e.select(isNear, 9, w)), 3),
                       {2.83297682, 1.00167406, 0.00943887047, -0.0076224613,
                        0.00573950773, -0.00367342844, 0.00134934322,
                        0.000100950558, -0.000200214257});
  Val y = e.mul(e.select(isNear, near, far), x);
  if (x.element().isF64())
    for (int i = 0; i < 2; ++i) {
      Val slope = e.mul(e.exp(e.mul(y, y)), std::sqrt(M_PI) / 2);
      y = e.sub(y, e.mul(e.sub(e.unary(UnaryKind::erf, y), x), slope));
    }
  constexpr double inf = std::numeric_limits<double>::infinity();
  return e.select(e.eq(e.abs(x), 1), e.mul(x, inf), y);
}

/// Stirling's series for x >= 8. Smaller numbers are raised by 8:
/// gamma(x + 8) = gamma(x) x (x + 1) .. (x + 7). For x < 1/2,
/// gamma(x) gamma(1 - x) = pi / sin(pi x).
Val logGamma(Emitter &e, Val x) {
  if (!x)
    return {};
  Val isLow = e.lt(x, 0.5);
  Val y = e.select(isLow, e.sub(1, x), x);
  constexpr int kRaised = 8;
  Val isSmall = e.lt(y, kRaised), small = e.select(isSmall, y, 1);
  Val product = small;
  for (int n = 1; n < kRaised; ++n)
    product = e.mul(product, e.add(small, n));
  Val z = e.select(isSmall, e.add(y, kRaised), y);
  Val inverse = e.div(e.scalar(1, x.element()), z);
  Val square = e.mul(inverse, inverse);
  Val series =
      e.mul(inverse, polynomial(e, square, {1.0 / 12, -1.0 / 360, 1.0 / 1260}));
  Val sum = e.sub(e.mul(e.sub(z, 0.5), e.log(z)), z);
  sum = e.add(e.add(sum, series), 0.5 * std::log(2 * M_PI));
  sum = e.sub(sum, e.select(isSmall, e.log(product), 0));
  // Where the reflection is unused, a sine of 1 keeps the gradient finite.
  Val rest = e.select(isLow, e.sub(x, e.floor(x)), 0.5);
  Val sine = e.log(e.sin(e.mul(rest, M_PI)));
  return e.select(isLow, e.sub(e.sub(std::log(M_PI), sine), sum), sum);
}

} // namespace dpc::frontend
