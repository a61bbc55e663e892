//===- Composed.cpp - Elementwise functions composed of others ------------===//
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
  Val square = e.binary(BinaryKind::mul, x, x);
  Val sum = e.binary(BinaryKind::mul, square, coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back().drop_front()))
    sum = e.binary(BinaryKind::mul, square, e.binary(BinaryKind::add, sum, c));
  return e.binary(BinaryKind::mul, x,
                  e.binary(BinaryKind::add, sum, coefficients.front()));
}

/// `near` where |x| < bound, else `far`.
Val nearZero(Emitter &e, Val x, double bound, Val near, Val far) {
  Val size = e.unary(UnaryKind::abs, x);
  if (!size)
    return {};
  return e.select(
      e.compare(CompareKind::lt, size, e.scalar(bound, x.element())), near,
      far);
}

void tan(NodeContext &c) {
  Val x = c.in(0);
  c.out(c.emit.binary(BinaryKind::div, c.emit.unary(UnaryKind::sin, x),
                      c.emit.unary(UnaryKind::cos, x)));
}

/// atan for |x| <= 1. Halving the angle twice by atan(x) = 2 atan(x / (1 +
/// sqrt(1 + x^2))) brings x below 1/5, where twelve terms of the series are
/// exact in f64.
Val arcTangentNear(Emitter &e, Val x) {
  constexpr int kHalvings = 2;
  for (int i = 0; i < kHalvings; ++i) {
    Val square = e.binary(BinaryKind::mul, x, x);
    Val root = e.unary(UnaryKind::sqrt, e.binary(BinaryKind::add, square, 1.0));
    x = e.binary(BinaryKind::div, x, e.binary(BinaryKind::add, root, 1.0));
  }
  llvm::SmallVector<double> series;
  for (int n = 0; n < 12; ++n)
    series.push_back((n % 2 ? -1.0 : 1.0) / (2 * n + 1));
  return e.binary(BinaryKind::mul, oddSeries(e, x, series),
                  std::ldexp(1.0, kHalvings));
}

/// For |x| > 1: sign(x) pi / 2 - atan(1 / x).
Val arcTangent(Emitter &e, Val x) {
  if (!x)
    return {};
  Val one = e.scalar(1, x.element());
  Val isFar = e.compare(CompareKind::gt, e.unary(UnaryKind::abs, x), one);
  // Divides by 1 where the quotient is unused, so that its gradient is finite.
  Val inverse = e.binary(BinaryKind::div, one, e.select(isFar, x, one));
  Val near = arcTangentNear(e, e.select(isFar, inverse, x));
  Val turned = e.binary(
      BinaryKind::sub,
      e.binary(BinaryKind::mul, e.unary(UnaryKind::sign, x), M_PI_2), near);
  return e.select(isFar, turned, near);
}

void atan(NodeContext &c) { c.out(arcTangent(c.emit, c.in(0))); }

/// atan(x / sqrt(1 - x^2)); the root of (1 - x)(1 + x) keeps its digits near 1.
Val arcSine(Emitter &e, Val x) {
  if (!x)
    return {};
  Val one = e.scalar(1, x.element());
  Val root =
      e.unary(UnaryKind::sqrt,
              e.binary(BinaryKind::mul, e.binary(BinaryKind::sub, one, x),
                       e.binary(BinaryKind::add, one, x)));
  return arcTangent(e, e.binary(BinaryKind::div, x, root));
}

void asin(NodeContext &c) { c.out(arcSine(c.emit, c.in(0))); }

void acos(NodeContext &c) {
  Val angle = arcSine(c.emit, c.in(0));
  if (angle)
    c.out(c.emit.binary(BinaryKind::sub, c.emit.scalar(M_PI_2, angle.element()),
                        angle));
}

/// (exp(x) + sign exp(-x)) / 2.
Val expPair(Emitter &e, Val x, BinaryKind sign) {
  Val sum = e.binary(sign, e.unary(UnaryKind::exp, x),
                     e.unary(UnaryKind::exp, e.unary(UnaryKind::neg, x)));
  return e.binary(BinaryKind::mul, sum, 0.5);
}

void sinh(NodeContext &c) {
  Val x = c.in(0);
  Val near = oddSeries(c.emit, x, {1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040});
  c.out(nearZero(c.emit, x, 0.5, near, expPair(c.emit, x, BinaryKind::sub)));
}

void cosh(NodeContext &c) { c.out(expPair(c.emit, c.in(0), BinaryKind::add)); }

/// sign(x) log(|x| + sqrt(x^2 + 1)).
void asinh(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  Val root =
      e.unary(UnaryKind::sqrt,
              e.binary(BinaryKind::add, e.binary(BinaryKind::mul, x, x), 1.0));
  Val size =
      e.unary(UnaryKind::log,
              e.binary(BinaryKind::add, e.unary(UnaryKind::abs, x), root));
  Val far = e.binary(BinaryKind::mul, e.unary(UnaryKind::sign, x), size);
  Val near = oddSeries(e, x, {1.0, -1.0 / 6, 3.0 / 40, -15.0 / 336});
  c.out(nearZero(e, x, 0.125, near, far));
}

/// log(x + sqrt(x - 1) sqrt(x + 1)).
void acosh(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  auto root = [&](double shift) {
    return e.unary(UnaryKind::sqrt, e.binary(BinaryKind::add, x, shift));
  };
  Val product = e.binary(BinaryKind::mul, root(-1.0), root(1.0));
  c.out(e.unary(UnaryKind::log, e.binary(BinaryKind::add, x, product)));
}

/// log((1 + x) / (1 - x)) / 2.
void atanh(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  Val ratio = e.binary(BinaryKind::div, e.binary(BinaryKind::add, x, 1.0),
                       e.binary(BinaryKind::sub, e.scalar(1, x.element()), x));
  Val far = e.binary(BinaryKind::mul, e.unary(UnaryKind::log, ratio), 0.5);
  Val near = oddSeries(e, x, {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9});
  c.out(nearZero(e, x, 0.125, near, far));
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

template <BinaryKind kind> void bitwise(NodeContext &c) {
  c.out(c.emit.binary(kind, c.in(0), c.secondIn(1)));
}

/// -x - 1, which wraps around for unsigned elements.
void bitwiseNot(NodeContext &c) {
  Val x = c.in(0);
  if (!x)
    return;
  c.out(c.emit.binary(BinaryKind::logical_xor, x,
                      c.emit.scalar(-1, x.element()))); // all bits set
}

/// Shifts by the powers of two in the binary form of the distance; each is a
/// multiplication or division by a constant.
void bitShift(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), distance = c.secondIn(1);
  if (!x || !distance)
    return;
  std::string direction = c.stringAttr("direction", "").str();
  if (direction != "LEFT" && direction != "RIGHT") {
    c.fail("direction '" + direction + "' is not known; accepted: LEFT, RIGHT");
    return;
  }
  BinaryKind kind = direction == "LEFT" ? BinaryKind::mul : BinaryKind::div;
  Type element = x.element();
  Val zero = e.scalar(0, element);
  for (unsigned bits = 1; bits < element.getIntOrFloatBitWidth(); bits *= 2) {
    Val isSet =
        e.compare(CompareKind::ne,
                  e.binary(BinaryKind::logical_and, distance, bits), zero);
    x = e.select(isSet, e.binary(kind, x, std::ldexp(1.0, bits)), x);
  }
  c.out(x);
}

//===----------------------------------------------------------------------===//
// Tests and activations
//===----------------------------------------------------------------------===//

void isInf(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  constexpr double inf = std::numeric_limits<double>::infinity();
  auto is = [&](llvm::StringRef attr, double value) {
    return c.intAttr(attr, 1)
               ? e.compare(CompareKind::eq, x, e.scalar(value, x.element()))
               : e.splat(0, e.builder.getI1Type(), x.shape());
  };
  c.out(e.binary(BinaryKind::logical_or, is("detect_positive", inf),
                 is("detect_negative", -inf)));
}

/// max(x, 0) + min(0, alpha (exp(x / alpha) - 1)).
void celu(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  double alpha = c.floatAttr("alpha", 1.0);
  Val below =
      e.unary(UnaryKind::exp,
              e.binary(BinaryKind::mul, e.binary(BinaryKind::minimum, x, 0.0),
                       1.0 / alpha));
  below =
      e.binary(BinaryKind::mul, e.binary(BinaryKind::sub, below, 1.0), alpha);
  c.out(e.binary(BinaryKind::add, e.unary(UnaryKind::relu, x), below));
}

void thresholdedRelu(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  Val above = e.compare(CompareKind::gt, x,
                        e.scalar(c.floatAttr("alpha", 1.0), x.element()));
  c.out(e.select(above, x, e.scalar(0, x.element())));
}

/// x - bias above lambd, x + bias below -lambd, else 0.
void shrink(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  double lambd = c.floatAttr("lambd", 0.5), bias = c.floatAttr("bias", 0.0);
  Type element = x.element();
  Val above = e.compare(CompareKind::gt, x, e.scalar(lambd, element));
  Val below = e.compare(CompareKind::lt, x, e.scalar(-lambd, element));
  Val low =
      e.select(below, e.binary(BinaryKind::add, x, bias), e.scalar(0, element));
  c.out(e.select(above, e.binary(BinaryKind::sub, x, bias), low));
}

} // namespace

void addComposedOps(OpTable &table) {
  table["Tan"] = tan;
  table["Atan"] = atan;
  table["Asin"] = asin;
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
