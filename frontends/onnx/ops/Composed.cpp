//===- Composed.cpp - Elementwise functions composed of others ------------===//
#include "frontends/emit/Elementwise.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend {

namespace {

//===----------------------------------------------------------------------===//
// Trigonometric and hyperbolic functions
//===----------------------------------------------------------------------===//

/// x * (c0 + c1 x^2 + c2 x^4 + ..): the odd series near zero, where the closed
/// forms below suffer from cancellation.
Val oddSeries(Emitter &e, Val x, llvm::ArrayRef<double> coefficients) {
  Val square = e.mul(x, x);
  Val sum = e.mul(square, coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back().drop_front()))
    sum = e.mul(square, e.add(sum, c));
  return e.mul(x, e.add(sum, coefficients.front()));
}

/// `near` where |x| < bound, else `far`.
Val nearZero(Emitter &e, Val x, double bound, Val near, Val far) {
  return e.select(e.lt(e.abs(x), bound), near, far);
}

/// atan for |x| <= 1. Halving the angle twice by atan(x) = 2 atan(x / (1 +
/// sqrt(1 + x^2))) brings x below 1/5, where twelve terms of the series are
/// exact in f64.
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

/// For |x| > 1: sign(x) pi / 2 - atan(1 / x).
Val arcTangent(Emitter &e, Val x) {
  if (!x)
    return {};
  Val one = e.scalar(1, x.element());
  Val isFar = e.gt(e.abs(x), one);
  // Divides by 1 where the quotient is unused, so that its gradient is finite.
  Val inverse = e.div(one, e.select(isFar, x, one));
  Val near = arcTangentNear(e, e.select(isFar, inverse, x));
  Val turned = e.sub(e.mul(e.sign(x), M_PI_2), near);
  return e.select(isFar, turned, near);
}

/// atan(x / sqrt(1 - x^2)); the root of (1 - x)(1 + x) keeps its digits near 1.
Val arcSine(Emitter &e, Val x) {
  Val root = e.sqrt(e.mul(e.sub(1, x), e.add(1, x)));
  return arcTangent(e, e.div(x, root));
}

Val acos(Emitter &e, Val x) { return e.sub(M_PI_2, arcSine(e, x)); }

/// (exp(x) + sign exp(-x)) / 2.
Val expPair(Emitter &e, Val x, BinaryKind sign) {
  Val sum = e.binary(sign, e.exp(x), e.exp(e.neg(x)));
  return e.mul(sum, 0.5);
}

Val sinh(Emitter &e, Val x) {
  Val near = oddSeries(e, x, {1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040});
  return nearZero(e, x, 0.5, near, expPair(e, x, BinaryKind::sub));
}

Val cosh(Emitter &e, Val x) { return expPair(e, x, BinaryKind::add); }

/// sign(x) log(|x| + sqrt(x^2 + 1)).
Val asinh(Emitter &e, Val x) {
  Val root = e.sqrt(e.add(e.mul(x, x), 1.0));
  Val size = e.log(e.add(e.abs(x), root));
  Val far = e.mul(e.sign(x), size);
  Val near = oddSeries(e, x, {1.0, -1.0 / 6, 3.0 / 40, -15.0 / 336});
  return nearZero(e, x, 0.125, near, far);
}

/// log(x + sqrt(x - 1) sqrt(x + 1)).
Val acosh(Emitter &e, Val x) {
  auto root = [&](double shift) { return e.sqrt(e.add(x, shift)); };
  Val product = e.mul(root(-1.0), root(1.0));
  return e.log(e.add(x, product));
}

/// log((1 + x) / (1 - x)) / 2.
Val atanh(Emitter &e, Val x) {
  Val ratio = e.div(e.add(x, 1.0), e.sub(1, x));
  Val far = e.mul(e.log(ratio), 0.5);
  Val near = oddSeries(e, x, {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9});
  return nearZero(e, x, 0.125, near, far);
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

template <BinaryKind kind> Val bitwise(NodeContext &c, Val x) {
  return c.emit.binary(kind, x, c.secondIn(1));
}

/// -x - 1, which wraps around for unsigned elements.
Val bitwiseNot(Emitter &e, Val x) { return e.logicalXor(x, -1); }

/// Shifts by the powers of two in the binary form of the distance; each is a
/// multiplication or division by a constant.
Val bitShift(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  Val distance = c.secondIn(1);
  llvm::StringRef direction = c.stringAttr("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return c.fail("direction '{0}' is not known; accepted: LEFT, RIGHT",
                  direction);
  BinaryKind kind = direction == "LEFT" ? BinaryKind::mul : BinaryKind::div;
  unsigned width = x.element().getIntOrFloatBitWidth();
  for (unsigned bits = 1; bits < width; bits *= 2) {
    Val isSet = e.ne(e.logicalAnd(distance, bits), 0);
    x = e.select(isSet, e.binary(kind, x, std::ldexp(1.0, bits)), x);
  }
  return x;
}

//===----------------------------------------------------------------------===//
// Tests and activations
//===----------------------------------------------------------------------===//

Val isInf(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  constexpr double inf = std::numeric_limits<double>::infinity();
  auto is = [&](llvm::StringRef attr, double value) {
    return c.intAttr(attr, 1) ? e.eq(x, value)
                              : e.splat(0, e.boolean(), x.shape());
  };
  return e.logicalOr(is("detect_positive", inf), is("detect_negative", -inf));
}

/// max(x, 0) + min(0, alpha (exp(x / alpha) - 1)).
Val celu(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  double alpha = c.floatAttr("alpha", 1.0);
  Val below = e.exp(e.mul(e.minimum(x, 0), 1.0 / alpha));
  below = e.mul(e.sub(below, 1), alpha);
  return e.add(e.relu(x), below);
}

Val thresholdedRelu(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  return e.select(e.gt(x, c.floatAttr("alpha", 1.0)), x, 0);
}

/// x - bias above lambd, x + bias below -lambd, else 0.
Val shrink(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  double lambd = c.floatAttr("lambd", 0.5), bias = c.floatAttr("bias", 0.0);
  Val above = e.gt(x, lambd);
  Val below = e.lt(x, -lambd);
  Val low = e.select(below, e.add(x, bias), 0);
  return e.select(above, e.sub(x, bias), low);
}

} // namespace

void addComposedOps(OpTable &table) {
  table["Tan"] = tangent;
  table["Atan"] = arcTangent;
  table["Asin"] = arcSine;
  table["Acos"] = acos;
  table["Sinh"] = sinh;
  table["Cosh"] = cosh;
  table["Asinh"] = asinh;
  table["Acosh"] = acosh;
  table["Atanh"] = atanh;
  table["BitwiseAnd"] = bitwise<BinaryKind::logical_and>;
  table["BitwiseOr"] = bitwise<BinaryKind::logical_or>;
  table["BitwiseXor"] = bitwise<BinaryKind::logical_xor>;
  table["BitwiseNot"] = bitwiseNot;
  table["BitShift"] = bitShift;
  table["IsInf"] = isInf;
  table["Celu"] = celu;
  table["ThresholdedRelu"] = thresholdedRelu;
  table["Shrink"] = shrink;
}

} // namespace dpc::frontend
