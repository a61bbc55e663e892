//===- Composed.cpp - Elementwise ATen operators composed of others -------===//
#include "frontends/emit/Elementwise.h"
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
  t["prelu.default"] = {"self, weight", prelu};
  t["celu.default"] = {"self, alpha=1", celu};
  t["threshold.default"] = {"self, threshold, value", threshold};
  t["hardshrink.default"] = {"self, lambd=0.5", shrink<false>};
  t["softshrink.default"] = {"self, lambd=0.5", shrink<true>};
}

} // namespace dpc::frontend::pt2
