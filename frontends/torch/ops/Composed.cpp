//===- Composed.cpp - Elementwise ATen operators composed of others -------===//
#include "frontends/torch/Call.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// The argument "self" in the float type of the result.
Val floats(Call &c) {
  Val x = c.operand("self");
  Type element = c.resultElement();
  return x && element ? c.emit.convert(x, element) : Val();
}

/// The logarithm of x to base `base`.
template <int base> void logarithm(Call &c) {
  c.out(c.emit.binary(BinaryKind::mul, c.emit.unary(UnaryKind::log, floats(c)),
                      1 / std::log(base)));
}

void exp2(Call &c) {
  c.out(c.emit.unary(UnaryKind::exp,
                     c.emit.binary(BinaryKind::mul, floats(c), M_LN2)));
}

/// tanh(x / 2) (exp(x) + 1), which does not cancel near zero.
void expm1(Call &c) {
  Emitter &e = c.emit;
  Val x = floats(c);
  Val ratio = e.unary(UnaryKind::tanh, e.binary(BinaryKind::mul, x, 0.5));
  Val sum = e.binary(BinaryKind::add, e.unary(UnaryKind::exp, x), 1.0);
  c.out(e.binary(BinaryKind::mul, ratio, sum));
}

/// Near zero 2 (z + z^3 / 3 + ..) with z = x / (2 + x), and log(1 + x)
/// elsewhere.
void log1p(Call &c) {
  Emitter &e = c.emit;
  Val x = floats(c);
  if (!x)
    return;
  Val isNear = e.compare(CompareKind::lt, e.unary(UnaryKind::abs, x),
                         e.scalar(0.25, x.element()));
  Val small = e.select(isNear, x, e.scalar(0, x.element()));
  Val z =
      e.binary(BinaryKind::div, small, e.binary(BinaryKind::add, small, 2.0));
  Val square = e.binary(BinaryKind::mul, z, z);
  Val sum = e.splat(1.0 / 15, x.element(), x.shape());
  for (int n = 13; n > 0; n -= 2)
    sum = e.binary(BinaryKind::add, e.binary(BinaryKind::mul, sum, square),
                   1.0 / n);
  Val near = e.binary(BinaryKind::mul, e.binary(BinaryKind::mul, z, sum), 2.0);
  Val far = e.unary(UnaryKind::log, e.binary(BinaryKind::add, x, 1.0));
  c.out(e.select(isNear, near, far));
}

void tan(Call &c) {
  Val x = floats(c);
  c.out(c.emit.binary(BinaryKind::div, c.emit.unary(UnaryKind::sin, x),
                      c.emit.unary(UnaryKind::cos, x)));
}

void round(Call &c) {
  Val x = c.tensor("self");
  if (x)
    c.out(x.isFloat() ? c.emit.round(x) : x);
}

void trunc(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (x && !x.isFloat())
    return c.out(x);
  Val size = e.unary(UnaryKind::floor, e.unary(UnaryKind::abs, x));
  c.out(e.binary(BinaryKind::mul, e.unary(UnaryKind::sign, x), size));
}

/// No integer is infinite or NaN.
template <bool ofInfinity> void isSpecial(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x)
    return;
  if (!x.isFloat())
    return c.out(e.splat(0, e.builder.getI1Type(), x.shape()));
  Val infinity = e.scalar(std::numeric_limits<double>::infinity(), x.element());
  c.out(ofInfinity
            ? e.compare(CompareKind::eq, e.unary(UnaryKind::abs, x), infinity)
            : e.compare(CompareKind::ne, x, x));
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// x where it is greater than `bound`, and `below` elsewhere.
Val above(Emitter &e, Val x, double bound, Val below) {
  if (!x || !below)
    return {};
  return e.select(e.compare(CompareKind::gt, x, e.scalar(bound, x.element())),
                  x, below);
}

/// One slope, or one per channel (dimension 1).
void prelu(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self"), slope = c.tensor("weight");
  if (!x || !slope)
    return;
  int64_t count = numElements(slope.shape());
  if (count != 1 && (x.rank() < 2 || x.dim(1) != count)) {
    c.fail("weight " + describe(slope.type()) + " does not fit " +
           describe(x.type()));
    return;
  }
  Shape shape(x.rank(), 1);
  if (count != 1)
    shape[1] = count;
  slope = e.reshape(slope, shape);
  c.out(above(e, x, 0, e.binary(BinaryKind::mul, x, slope)));
}

/// The minimum keeps the unused branch and its gradient finite.
void celu(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  double alpha = c.number("alpha");
  if (alpha == 0) {
    c.fail("alpha is 0");
    return;
  }
  Val below = e.binary(BinaryKind::mul, e.binary(BinaryKind::minimum, x, 0.0),
                       1 / alpha);
  below = e.binary(BinaryKind::sub, e.unary(UnaryKind::exp, below), 1.0);
  c.out(above(e, x, 0, e.binary(BinaryKind::mul, below, alpha)));
}

void threshold(Call &c) {
  Val x = c.tensor("self");
  if (x)
    c.out(above(c.emit, x, c.number("threshold"),
                c.emit.splat(c.number("value"), x.element(), x.shape())));
}

/// 0 within `lambd` of 0. Beyond that x, or with `isSoft` the distance from
/// `lambd`.
template <bool isSoft> void shrink(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x)
    return;
  double bound = c.number("lambd");
  Val part = x;
  if (isSoft)
    part =
        e.binary(BinaryKind::sub, x,
                 e.binary(BinaryKind::mul, e.unary(UnaryKind::sign, x), bound));
  Val isBeyond = e.compare(CompareKind::gt, e.unary(UnaryKind::abs, x),
                           e.scalar(bound, x.element()));
  c.out(e.select(isBeyond, part, e.scalar(0, x.element())));
}

} // namespace

void addComposed(OperatorTable &t) {
  t["log2.default"] = {"self", logarithm<2>};
  t["log10.default"] = {"self", logarithm<10>};
  t["exp2.default"] = {"self", exp2};
  t["expm1.default"] = {"self", expm1};
  t["log1p.default"] = {"self", log1p};
  t["tan.default"] = {"self", tan};
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
