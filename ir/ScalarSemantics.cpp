//===- ScalarSemantics.cpp - Elementwise functions on numbers -------------===//
#include "ir/ScalarSemantics.h"

#include <cmath>
#include <limits>

using namespace dpc;
using llvm::APInt;

static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

static double geluInner(double x) {
  return std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
}
static double geluInnerGrad(double x) {
  return std::sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
}

static double geluGrad(double x) {
  double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
  return 0.5 * (1.0 + std::erf(x * M_SQRT1_2)) + x * density;
}

static double geluTanhGrad(double x) {
  double t = std::tanh(geluInner(x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * geluInnerGrad(x);
}

static double siluGrad(double x) {
  double s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}

double dpc::evaluate(UnaryKind kind, double x) {
  switch (kind) {
  case UnaryKind::neg:
    return -x;
  case UnaryKind::exp:
    return std::exp(x);
  case UnaryKind::log:
    return std::log(x);
  case UnaryKind::sqrt:
    return std::sqrt(x);
  case UnaryKind::rsqrt:
    return 1.0 / std::sqrt(x);
  case UnaryKind::reciprocal:
    return 1.0 / x;
  case UnaryKind::abs:
    return std::abs(x);
  case UnaryKind::sign:
    return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
  case UnaryKind::floor:
    return std::floor(x);
  case UnaryKind::ceil:
    return std::ceil(x);
  case UnaryKind::tanh:
    return std::tanh(x);
  case UnaryKind::sigmoid:
    return sigmoid(x);
  case UnaryKind::relu:
    return x < 0 ? 0.0 : x;
  case UnaryKind::erf:
    return std::erf(x);
  case UnaryKind::sin:
    return std::sin(x);
  case UnaryKind::cos:
    return std::cos(x);
  case UnaryKind::gelu:
    return 0.5 * x * (1.0 + std::erf(x * M_SQRT1_2));
  case UnaryKind::gelu_tanh:
    return 0.5 * x * (1.0 + std::tanh(geluInner(x)));
  case UnaryKind::silu:
    return x * sigmoid(x);
  case UnaryKind::logical_not:
    return x == 0 ? 1.0 : 0.0;
  case UnaryKind::gelu_grad:
    return geluGrad(x);
  case UnaryKind::gelu_tanh_grad:
    return geluTanhGrad(x);
  case UnaryKind::silu_grad:
    return siluGrad(x);
  }
  llvm_unreachable("unknown unary kind");
}

std::optional<APInt> dpc::evaluate(UnaryKind kind, const APInt &x,
                                   bool isUnsigned) {
  bool isNegative = !isUnsigned && x.isNegative();
  switch (kind) {
  case UnaryKind::neg:
    return -x;
  case UnaryKind::abs:
    return isNegative ? -x : x;
  case UnaryKind::sign:
    return isNegative ? APInt::getAllOnes(x.getBitWidth())
                      : APInt(x.getBitWidth(), !x.isZero());
  case UnaryKind::relu:
    return isNegative ? APInt::getZero(x.getBitWidth()) : x;
  case UnaryKind::logical_not:
    return APInt(x.getBitWidth(), x.isZero());
  default:
    return std::nullopt;
  }
}

double dpc::evaluate(BinaryKind kind, double a, double b) {
  switch (kind) {
  case BinaryKind::add:
    return a + b;
  case BinaryKind::sub:
    return a - b;
  case BinaryKind::mul:
    return a * b;
  case BinaryKind::div:
    return a / b;
  case BinaryKind::pow:
    return std::pow(a, b);
  case BinaryKind::maximum:
    return std::isnan(a) || a > b ? a : b;
  case BinaryKind::minimum:
    return std::isnan(a) || a < b ? a : b;
  case BinaryKind::rem:
    return std::fmod(a, b);
  case BinaryKind::logical_and:
    return a != 0 && b != 0;
  case BinaryKind::logical_or:
    return a != 0 || b != 0;
  case BinaryKind::logical_xor:
    return (a != 0) != (b != 0);
  }
  llvm_unreachable("unknown binary kind");
}

std::optional<APInt> dpc::evaluate(BinaryKind kind, const APInt &a,
                                   const APInt &b, bool isUnsigned) {
  bool divides = kind == BinaryKind::div || kind == BinaryKind::rem;
  if (divides &&
      (b.isZero() || (!isUnsigned && a.isMinSignedValue() && b.isAllOnes())))
    return std::nullopt;
  bool aIsLess = isUnsigned ? a.ult(b) : a.slt(b);
  switch (kind) {
  case BinaryKind::add:
    return a + b;
  case BinaryKind::sub:
    return a - b;
  case BinaryKind::mul:
    return a * b;
  case BinaryKind::div:
    return isUnsigned ? a.udiv(b) : a.sdiv(b);
  case BinaryKind::rem:
    return isUnsigned ? a.urem(b) : a.srem(b);
  case BinaryKind::maximum:
    return aIsLess ? b : a;
  case BinaryKind::minimum:
    return aIsLess ? a : b;
  case BinaryKind::logical_and:
    return a & b;
  case BinaryKind::logical_or:
    return a | b;
  case BinaryKind::logical_xor:
    return a ^ b;
  case BinaryKind::pow:
    return std::nullopt;
  }
  llvm_unreachable("unknown binary kind");
}

BinaryKind dpc::combinerOf(ReduceKind kind) {
  // The binary kinds of sum, max, min and prod, in the order of ReduceKind.
  static constexpr BinaryKind combiners[] = {
      BinaryKind::add, BinaryKind::maximum, BinaryKind::minimum,
      BinaryKind::mul};
  return combiners[static_cast<size_t>(kind)];
}

double dpc::neutralOf(ReduceKind kind) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double elements[] = {0, -infinity, infinity, 1};
  return elements[static_cast<size_t>(kind)];
}
