//===- Composed.cpp - Elementwise ATen operators composed of others -------===//
#include "frontends/emit/Elementwise.h"
#include "frontends/emit/Functions.h"
#include "frontends/torch/Call.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

template <int base> Val logarithm(Emitter &e, Val x) {
  return e.mul(e.log(x), 1 / std::log(base));
}

Val exp2(Emitter &e, Val x) { return e.exp(e.mul(x, M_LN2)); }

/// Near zero, log(1 + x) is 2 (z + z^3 / 3 + ..) with z = x / (2 + x).
Val log1p(Emitter &e, Val x) {
  Val isNear = e.lt(e.abs(x), 0.25);
  Val small = e.select(isNear, x, 0);
  Val z = e.div(small, e.add(small, 2.0));
  Val square = e.mul(z, z);
  Val sum = e.splat(1.0 / 15, x.element(), x.shape());
  for (int n = 13; n > 0; n -= 2)
    sum = e.add(e.mul(sum, square), 1.0 / n);
  Val near = e.mul(e.mul(z, sum), 2.0);
  Val far = e.log(e.add(x, 1.0));
  return e.select(isNear, near, far);
}

Val round(Call &c, Val x) { return x.isFloat() ? c.emit.round(x) : x; }

Val trunc(Call &c, Val x) {
  if (!x.isFloat())
    return x;
  Val size = c.emit.floor(c.emit.abs(x));
  return c.emit.mul(c.emit.sign(x), size);
}

/// Integers are neither infinite nor NaN.
template <bool ofInfinity> Val isSpecial(Call &c, Val x) {
  if (!x.isFloat())
    return c.emit.splat(0, c.emit.boolean(), x.shape());
  return ofInfinity ? isInfinite(c.emit, x) : isNaN(c.emit, x);
}

/// Returns x where x > bound, and `below` elsewhere.
Val above(Emitter &e, Val x, double bound, Val below) {
  return e.select(e.gt(x, bound), x, below);
}

/// The weight has one slope, or one per channel (dimension 1).
Val prelu(Call &c, Val x, Val slope) {
  Emitter &e = c.emit;
  int64_t count = numElements(slope.shape());
  if (count != 1 && (x.rank() < 2 || x.dim(1) != count))
    return c.fail("weight {0} does not fit {1}", slope, x);
  slope = e.reshape(slope, count == 1 ? Shape(x.rank(), 1)
                                      : unitShape(x.rank(), 1, count));
  return above(e, x, 0, e.mul(x, slope));
}

/// The minimum keeps the gradient finite where x itself is selected.
Val celu(Call &c, Val x) {
  Emitter &e = c.emit;
  double alpha = c.number("alpha");
  if (alpha == 0)
    return c.fail("alpha is 0");
  return above(e, x, 0, expBelow(e, x, alpha, 1 / alpha));
}

Val threshold(Call &c, Val x) {
  return above(c.emit, x, c.number("threshold"),
               c.emit.splat(c.number("value"), x.element(), x.shape()));
}

/// 0 where |x| <= lambd; else x or, if `isSoft`, x moved by lambd toward 0.
template <bool isSoft> Val shrink(Call &c, Val x) {
  Emitter &e = c.emit;
  double bound = c.number("lambd");
  Val part = isSoft ? e.sub(x, e.mul(e.sign(x), bound)) : x;
  return e.select(e.gt(e.abs(x), bound), part, 0);
}

/// Computes in f32 at least, so that 16-bit types lose nothing more.
template <Val function(Emitter &, Val)> Val wide(Emitter &e, Val x) {
  return e.convert(function(e, e.convert(x, e.statisticsType(x))), x.element());
}

/// The term slope (x - x) is zero and has torch's gradient, which that of the
/// approximation only comes near.
Val erfinv(Call &c, Val given) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  if (!element)
    return {};
  Val x = e.convert(given, element);
  Val wideX = e.convert(x, e.statisticsType(x));
  Val fixed = c.trains ? withoutGradient(e, wideX) : wideX;
  Val y = inverseErf(e, fixed);
  if (c.trains && reachesParameter(wideX)) {
    Val slope = e.mul(e.exp(e.mul(y, y)), std::sqrt(M_PI) / 2);
    y = e.add(y, e.mul(slope, e.sub(wideX, fixed)));
  }
  return e.convert(y, element);
}

Val erfc(Emitter &e, Val x) { return e.sub(1, e.unary(UnaryKind::erf, x)); }

/// x log(y), where 0 log(y) is 0.
Val xlogy(Emitter &e, Val x, Val y) {
  Val isZero = e.eq(x, 0);
  return e.select(isZero, 0, e.mul(x, e.log(e.select(isZero, 1, y))));
}

Val frac(Call &c, Val x) { return c.emit.sub(x, trunc(c, x)); }

/// sin(pi x) / (pi x), and 1 at 0.
Val sinc(Emitter &e, Val x) {
  Val isZero = e.eq(x, 0);
  Val angle = e.mul(e.select(isZero, 1, x), M_PI);
  return e.select(isZero, 1, e.div(e.sin(angle), angle));
}

} // namespace

void addComposed(OperatorTable &t) {
  t["log2.default"] = {"self", logarithm<2>};
  t["log10.default"] = {"self", logarithm<10>};
  t["exp2.default"] = {"self", exp2};
  t["expm1.default"] = {"self", expMinusOne};
  t["log1p.default"] = {"self", log1p};
  t["tan.default"] = {"self", tangent};
  t["round.default"] = {"self", round};
  t["trunc.default"] = {"self", trunc};
  t["isnan.default"] = {"self", isSpecial<false>};
  t["isinf.default"] = {"self", isSpecial<true>};
  t["atan.default"] = {"self", wide<arcTangent>};
  t["asin.default"] = {"self", wide<arcSine>};
  t["acos.default"] = {"self", wide<arcCosine>};
  t["sinh.default"] = {"self", wide<sineHyperbolic>};
  t["cosh.default"] = {"self", wide<cosineHyperbolic>};
  t["asinh.default"] = {"self", wide<areaSine>};
  t["acosh.default"] = {"self", wide<areaCosine>};
  t["atanh.default"] = {"self", wide<areaTangent>};
  t["atan2.default"] = {"self, other", arcTangentOf};
  t["lgamma.default"] = {"self", wide<logGamma>};
  t["erfinv.default"] = {"self", erfinv};
  t["erfc.default"] = {"self", erfc};
  t["sinc.default"] = {"self", sinc};
  t["frac.default"] = {"self", frac};
  for (const char *form : {"Tensor", "Scalar_Other", "Scalar_Self"})
    for (const char *name : {"xlogy.", "special_xlogy."})
      t[std::string(name) + form] = {"self, other", xlogy};
  t["prelu.default"] = {"self, weight", prelu};
  t["celu.default"] = {"self, alpha=1", celu};
  t["threshold.default"] = {"self, threshold, value", threshold};
  t["hardshrink.default"] = {"self, lambd=0.5", shrink<false>};
  t["softshrink.default"] = {"self, lambd=0.5", shrink<true>};
}

} // namespace dpc::frontend::pt2
