//===- ConstEval.cpp - Scalar evaluation of elementwise kinds -------------===//
#include "frontends/emit/ConstTensor.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

static double evalFloatUnary(UnaryKind kind, double x) {
  auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
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
    return std::fabs(x);
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
    return 0.5 * x *
           (1.0 +
            std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  case UnaryKind::silu:
    return x * sigmoid(x);
  default:
    llvm_unreachable("no ONNX operator makes this kind");
  }
}

Scalar evalUnary(UnaryKind kind, Scalar x, bool isFloat) {
  Scalar r;
  if (isFloat) {
    r.f = evalFloatUnary(kind, x.f);
    return r;
  }
  switch (kind) {
  case UnaryKind::neg:
    r.i = static_cast<int64_t>(-static_cast<uint64_t>(x.i));
    break;
  case UnaryKind::abs:
    r.i = x.i < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x.i)) : x.i;
    break;
  case UnaryKind::sign:
    r.i = (x.i > 0) - (x.i < 0);
    break;
  case UnaryKind::relu:
    r.i = x.i < 0 ? 0 : x.i;
    break;
  case UnaryKind::logical_not:
    r.i = !x.i;
    break;
  default:
    llvm_unreachable("other kinds take floats");
  }
  return r;
}

static double evalFloatBinary(BinaryKind kind, double a, double b) {
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
  default:
    llvm_unreachable("logical kinds take booleans");
  }
}

/// Integer power by squaring; negative exponents truncate toward zero.
static int64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

Scalar evalBinary(BinaryKind kind, Scalar a, Scalar b, bool isFloat) {
  Scalar r;
  if (isFloat) {
    r.f = evalFloatBinary(kind, a.f, b.f);
    return r;
  }
  auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  uint64_t x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
  switch (kind) {
  case BinaryKind::add:
    r.i = wrap(x + y);
    break;
  case BinaryKind::sub:
    r.i = wrap(x - y);
    break;
  case BinaryKind::mul:
    r.i = wrap(x * y);
    break;
  // b == -1 is a special case because INT64_MIN / -1 traps.
  case BinaryKind::div:
    r.i = b.i == 0 ? 0 : b.i == -1 ? wrap(-x) : a.i / b.i;
    break;
  case BinaryKind::rem:
    r.i = b.i == 0 || b.i == -1 ? 0 : a.i % b.i;
    break;
  case BinaryKind::pow:
    r.i = integerPower(a.i, b.i);
    break;
  case BinaryKind::maximum:
    r.i = std::max(a.i, b.i);
    break;
  case BinaryKind::minimum:
    r.i = std::min(a.i, b.i);
    break;
  case BinaryKind::logical_and:
    r.i = a.i & b.i;
    break;
  case BinaryKind::logical_or:
    r.i = a.i | b.i;
    break;
  case BinaryKind::logical_xor:
    r.i = a.i ^ b.i;
    break;
  }
  return r;
}

template <typename T> static bool evalCompareAs(CompareKind kind, T a, T b) {
  switch (kind) {
  case CompareKind::eq:
    return a == b;
  case CompareKind::ne:
    return a != b;
  case CompareKind::lt:
    return a < b;
  case CompareKind::le:
    return a <= b;
  case CompareKind::gt:
    return a > b;
  case CompareKind::ge:
    return a >= b;
  }
  llvm_unreachable("all kinds handled");
}

bool evalCompare(CompareKind kind, Scalar a, Scalar b, bool isFloat) {
  return isFloat ? evalCompareAs(kind, a.f, b.f)
                 : evalCompareAs(kind, a.i, b.i);
}

} // namespace dpc::frontend
