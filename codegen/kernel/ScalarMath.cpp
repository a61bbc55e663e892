//===- ScalarMath.cpp - Elementwise functions on scalars ------------------===//
#include "codegen/kernel/ScalarMath.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::codegen {

namespace {
// The compiler may fuse multiply-adds, but may change nothing else.
constexpr auto kContract = arith::FastMathFlags::contract;
constexpr auto kReorder =
    arith::FastMathFlags::contract | arith::FastMathFlags::reassoc;
} // namespace

Value ScalarMath::constant(Type type, double value) {
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  unsigned width = type.getIntOrFloatBitWidth();
  if (std::isinf(value))
    return arith::ConstantOp::create(
        b, b.getIntegerAttr(type, value < 0 ? APInt::getSignedMinValue(width)
                                            : APInt::getSignedMaxValue(width)));
  return arith::ConstantOp::create(
      b, b.getIntegerAttr(type, static_cast<int64_t>(value)));
}

Value ScalarMath::add(Value x, Value y) {
  return arith::AddFOp::create(b, x, y, kContract);
}
Value ScalarMath::sub(Value x, Value y) {
  return arith::SubFOp::create(b, x, y, kContract);
}
Value ScalarMath::mul(Value x, Value y) {
  return arith::MulFOp::create(b, x, y, kContract);
}
Value ScalarMath::div(Value x, Value y) {
  return arith::DivFOp::create(b, x, y, kContract);
}

Value ScalarMath::accumulate(ReduceKind kind, Value x, Value y,
                             bool isUnsigned) {
  bool isFloat = isa<FloatType>(x.getType());
  switch (kind) {
  case ReduceKind::sum:
    return isFloat ? Value(arith::AddFOp::create(b, x, y, kReorder))
                   : addI(b, x, y);
  case ReduceKind::prod:
    return isFloat ? Value(arith::MulFOp::create(b, x, y, kReorder))
                   : mulI(b, x, y);
  case ReduceKind::max:
    return isFloat      ? Value(arith::MaximumFOp::create(b, x, y))
           : isUnsigned ? Value(arith::MaxUIOp::create(b, x, y))
                        : maxS(b, x, y);
  case ReduceKind::min:
    return isFloat      ? Value(arith::MinimumFOp::create(b, x, y))
           : isUnsigned ? Value(arith::MinUIOp::create(b, x, y))
                        : minS(b, x, y);
  }
  llvm_unreachable("unknown reduction");
}

Value ScalarMath::neutral(ReduceKind kind, Type type, bool isUnsigned) {
  if (isUnsigned && isa<IntegerType>(type) &&
      (kind == ReduceKind::max || kind == ReduceKind::min)) {
    unsigned width = type.getIntOrFloatBitWidth();
    return arith::ConstantOp::create(
        b, b.getIntegerAttr(type, kind == ReduceKind::max
                                      ? APInt::getZero(width)
                                      : APInt::getAllOnes(width)));
  }
  double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
  case ReduceKind::sum:
    return constant(type, 0);
  case ReduceKind::prod:
    return constant(type, 1);
  case ReduceKind::max:
    return constant(type, -infinity);
  case ReduceKind::min:
    return constant(type, infinity);
  }
  llvm_unreachable("unknown reduction");
}

static Value polynomial(ScalarMath &m, Value x, ArrayRef<double> highFirst) {
  Value sum = m.constant(x.getType(), highFirst.front());
  for (double c : highFirst.drop_front())
    sum = m.add(m.mul(sum, x), m.constant(x.getType(), c));
  return sum;
}

// exp(x) = 2^n * e^r with n = round(x / ln 2) and |r| <= ln 2 / 2. ln 2 is
// split in two constants so that n * high is exact (Cephes). 2^n is applied as
// two factors, because n reaches -150 for denormal results.
Value ScalarMath::exp(Value x) {
  Type type = x.getType();
  if (!type.isF32())
    return math::ExpOp::create(b, x);
  Value low = constant(type, -104.0), high = constant(type, 89.0);
  // These comparisons are false for NaN, so NaN is kept.
  x = select(b, cmp(b, FloatPredicate::OLT, x, low), low, x);
  x = select(b, cmp(b, FloatPredicate::OGT, x, high), high, x);
  // Adding 1.5 * 2^23 puts the rounded integer in the low mantissa bits.
  Value magic = constant(type, 12582912.0);
  Value shifted = arith::AddFOp::create(
      b, arith::MulFOp::create(b, x, constant(type, 1.44269504088896341)),
      magic);
  Value n = arith::SubFOp::create(b, shifted, magic);
  Value r = add(x, mul(n, constant(type, -0.693359375)));
  r = add(r, mul(n, constant(type, 2.12194440e-4)));
  Value p = polynomial(*this, r,
                       {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                        4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  p = add(add(mul(mul(r, r), p), r), constant(type, 1.0));
  Type i32 = b.getI32Type();
  auto power = [&](Value e) -> Value {
    Value bits = shiftLeft(b, addI(b, e, 127), 23);
    return bitcast(b, type, bits);
  };
  Value whole = subI(b, bitcast(b, i32, shifted), 0x4B400000);
  Value half = shiftRightS(b, whole, 1);
  Value rest = subI(b, whole, half);
  return arith::MulFOp::create(b, arith::MulFOp::create(b, p, power(half)),
                               power(rest));
}

// The subtraction must not be fused with a multiplication that computes x,
// because `shift` is already rounded: for a product of 1e10, the error would be
// up to 512 (half a unit in the last place).
Value ScalarMath::expOfDifference(Value x, Value shift) {
  return exp(arith::SubFOp::create(b, x, shift));
}

// Cephes logf: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and a polynomial in m
// - 1. Denormals are scaled up first.
Value ScalarMath::log(Value x) {
  Type type = x.getType();
  if (!type.isF32() || !isForGpu)
    return math::LogOp::create(b, x);
  auto choose = [&](FloatPredicate predicate, double limit, Value yes,
                    Value no) -> Value {
    Value is = cmp(b, predicate, x, constant(type, limit));
    return select(b, is, yes, no);
  };
  using F = FloatPredicate;
  constexpr double kLeastNormal = 1.1754943508222875e-38;
  Value scaled =
      choose(F::OLT, kLeastNormal, mul(x, constant(type, 8388608)), x);
  Value shift = choose(F::OLT, kLeastNormal, constantI32(b, 127 + 23),
                       constantI32(b, 127));
  Value bits = bitcast(b, b.getI32Type(), scaled);
  // After the subtraction of sqrt(1/2), the exponent bits are e.
  Value from = subI(b, bits, 0x3f3504f3);
  Value e = shiftRightS(b, from, 23);
  Value fraction = subI(b, bits, shiftLeft(b, e, 23));
  Value r = sub(bitcast(b, type, fraction), constant(type, 1));
  Value exponent = arith::SIToFPOp::create(
      b, type, addI(b, e, subI(b, constantI32(b, 127), shift)));
  Value square = mul(r, r);
  Value y = polynomial(*this, r,
                       {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
                        -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  y = mul(mul(y, r), square);
  y = add(y, mul(exponent, constant(type, -2.12194440e-4)));
  y = sub(y, mul(square, constant(type, 0.5)));
  y = add(add(r, y), mul(exponent, constant(type, 0.693359375)));
  double infinity = std::numeric_limits<double>::infinity();
  double nan = std::numeric_limits<double>::quiet_NaN();
  y = choose(F::OEQ, 0, constant(type, -infinity), y);
  y = choose(F::OLT, 0, constant(type, nan), y);
  return choose(F::OLT, infinity, y, x); // infinity and NaN stay
}

// Repeated squaring, in which the powers base^(2^k) are constants.
Value ScalarMath::power(double base, Value exponent) {
  Type f64 = b.getF64Type(), i64 = b.getI64Type();
  if (!isForGpu)
    return math::PowFOp::create(b, constant(f64, base), exponent);
  Value whole = arith::FPToSIOp::create(b, i64, exponent);
  auto choose = [&](Value bits, Value yes, Value no) -> Value {
    Value is = cmp(b, IntPredicate::ne, bits, constant(i64, 0));
    return select(b, is, yes, no);
  };
  Value product = constant(f64, 1);
  for (int64_t bit = 0; bit < 62; ++bit, base *= base) {
    if (base == 0) {
      Value rest = shiftRightU(b, whole, constant(i64, bit));
      return choose(rest, constant(f64, 0), product);
    }
    Value mask = constant(i64, std::ldexp(1.0, int(bit)));
    product = choose(andI(b, whole, mask), mul(product, constant(f64, base)),
                     product);
  }
  return product;
}

// Cephes tanhf: a polynomial near zero, and 1 - 2 / (exp(2|x|) + 1) elsewhere.
Value ScalarMath::tanh(Value x) {
  Type type = x.getType();
  if (!type.isF32())
    return math::TanhOp::create(b, x);
  Value magnitude = math::AbsFOp::create(b, x);
  Value square = mul(x, x);
  Value p = polynomial(*this, square,
                       {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                        1.33314422036e-1, -3.33332819422e-1});
  Value nearZero = add(mul(mul(p, square), x), x);
  Value e = exp(add(magnitude, magnitude));
  Value one = constant(type, 1.0);
  Value far = sub(one, div(constant(type, 2.0), add(e, one)));
  far = math::CopySignOp::create(b, far, x);
  Value isNear = cmp(b, FloatPredicate::OLT, magnitude, constant(type, 0.625));
  return select(b, isNear, nearZero, far);
}

// Minimax polynomials by N. Juffa, each with an error below 1 ulp.
static Value erfNear(ScalarMath &m, Value x, Value square) {
  Value p = polynomial(m, square,
                       {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2,
                        1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
  return m.add(m.mul(p, x), x);
}
static Value erfFar(ScalarMath &m, Value x, Value magnitude, Value square) {
  Value high = polynomial(m, magnitude, {-1.72853470e-5, 3.83197126e-4});
  Value low = polynomial(m, magnitude, {-3.88396438e-3, 2.42546219e-2});
  Value p = m.add(m.mul(high, square), low);
  for (double c : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1})
    p = m.add(m.mul(p, magnitude), m.constant(x.getType(), c));
  p = m.sub(m.mul(p, magnitude), magnitude);
  Value result = m.sub(m.constant(x.getType(), 1.0), m.exp(p));
  return math::CopySignOp::create(m.b, result, x);
}

Value ScalarMath::erf(Value x) {
  Type type = x.getType();
  if (!type.isF32())
    return math::ErfOp::create(b, x);
  Value magnitude = math::AbsFOp::create(b, x);
  // Above 4 the result is 1. The clamp avoids inf - inf.
  Value limit = constant(type, 4.0);
  Value tooFar = cmp(b, FloatPredicate::OGT, magnitude, limit);
  Value clamped = select(b, tooFar, limit, magnitude);
  Value square = mul(clamped, clamped);
  Value isNear =
      cmp(b, FloatPredicate::OLE, magnitude, constant(type, 0.927734375));
  return select(b, isNear, erfNear(*this, x, square),
                erfFar(*this, x, clamped, square));
}

Value ScalarMath::sigmoid(Value x) {
  Value one = constant(x.getType(), 1.0);
  return div(one, add(one, exp(arith::NegFOp::create(b, x))));
}

static Value gelu(ScalarMath &m, Value x) {
  Type type = x.getType();
  Value e = m.erf(m.mul(x, m.constant(type, 0.70710678118654752)));
  return m.mul(m.mul(x, m.constant(type, 0.5)),
               m.add(e, m.constant(type, 1.0)));
}

// d/dx x Phi(x) = Phi(x) + x phi(x); Phi is the integral of the density phi.
static Value geluGrad(ScalarMath &m, Value x) {
  Type type = x.getType();
  Value e = m.erf(m.mul(x, m.constant(type, 0.70710678118654752)));
  Value phi = m.mul(m.exp(m.mul(m.mul(x, x), m.constant(type, -0.5))),
                    m.constant(type, 0.39894228040143268));
  Value cdf = m.mul(m.add(e, m.constant(type, 1.0)), m.constant(type, 0.5));
  return m.add(cdf, m.mul(x, phi));
}

// 0.5 x (1 + t) with t = tanh u and u = c (x + a x^3). The derivative is 0.5 (1
// + t) + 0.5 x (1 - t^2) c (1 + 3 a x^2).
static Value geluTanh(ScalarMath &m, Value x, bool gradient) {
  Type type = x.getType();
  Value c = m.constant(type, 0.79788456080286536);
  Value one = m.constant(type, 1.0), half = m.constant(type, 0.5);
  Value square = m.mul(x, x);
  Value inner = m.add(m.mul(m.mul(square, m.constant(type, 0.044715)), x), x);
  Value t = m.tanh(m.mul(inner, c));
  Value base = m.mul(half, m.add(t, one));
  if (!gradient)
    return m.mul(x, base);
  Value slope = m.add(m.mul(square, m.constant(type, 3 * 0.044715)), one);
  Value rest =
      m.mul(m.mul(m.mul(half, x), m.sub(one, m.mul(t, t))), m.mul(c, slope));
  return m.add(base, rest);
}

static Value sign(ScalarMath &m, Value x) {
  Type type = x.getType();
  Value zero = m.constant(type, 0.0);
  Value negative = select(m.b, cmp(m.b, FloatPredicate::OLT, x, zero),
                          m.constant(type, -1.0), x);
  return select(m.b, cmp(m.b, FloatPredicate::OGT, x, zero),
                m.constant(type, 1.0), negative);
}

static Value integerUnary(ScalarMath &m, UnaryKind kind, Value x,
                          bool isUnsigned) {
  Type type = x.getType();
  Value zero = m.constant(type, 0);
  bool isWhole = kind == UnaryKind::abs || kind == UnaryKind::relu;
  if (isUnsigned && isWhole)
    return x;
  if (isUnsigned && kind == UnaryKind::sign)
    return arith::MinUIOp::create(m.b, x, m.constant(type, 1));
  switch (kind) {
  case UnaryKind::logical_not:
    return arith::XOrIOp::create(m.b, x, m.constant(type, 1));
  case UnaryKind::neg:
    return subI(m.b, zero, x);
  case UnaryKind::abs:
    return maxS(m.b, x, subI(m.b, zero, x));
  case UnaryKind::relu:
    return maxS(m.b, x, zero);
  case UnaryKind::sign:
    return maxS(m.b, m.constant(type, -1), minS(m.b, m.constant(type, 1), x));
  case UnaryKind::floor:
  case UnaryKind::ceil:
    return x;
  default:
    return {};
  }
}

Value ScalarMath::unary(UnaryKind kind, Value x, bool isUnsigned) {
  Type type = x.getType();
  if (!isa<FloatType>(type))
    return integerUnary(*this, kind, x, isUnsigned);
  Value one = constant(type, 1.0);
  switch (kind) {
  case UnaryKind::neg:
    return arith::NegFOp::create(b, x);
  case UnaryKind::exp:
    return exp(x);
  case UnaryKind::log:
    return log(x);
  case UnaryKind::sqrt:
    return math::SqrtOp::create(b, x);
  case UnaryKind::rsqrt:
    return div(one, math::SqrtOp::create(b, x));
  case UnaryKind::reciprocal:
    return div(one, x);
  case UnaryKind::abs:
    return math::AbsFOp::create(b, x);
  case UnaryKind::sign:
    return sign(*this, x);
  case UnaryKind::floor:
    return math::FloorOp::create(b, x);
  case UnaryKind::ceil:
    return math::CeilOp::create(b, x);
  case UnaryKind::tanh:
    return tanh(x);
  case UnaryKind::sigmoid:
    return sigmoid(x);
  case UnaryKind::relu:
    return arith::MaximumFOp::create(b, x, constant(type, 0.0));
  case UnaryKind::erf:
    return erf(x);
  case UnaryKind::sin:
    return math::SinOp::create(b, x);
  case UnaryKind::cos:
    return math::CosOp::create(b, x);
  case UnaryKind::gelu:
    return gelu(*this, x);
  case UnaryKind::gelu_tanh:
    return geluTanh(*this, x, /*gradient=*/false);
  case UnaryKind::silu:
    return mul(x, sigmoid(x));
  case UnaryKind::gelu_grad:
    return geluGrad(*this, x);
  case UnaryKind::gelu_tanh_grad:
    return geluTanh(*this, x, /*gradient=*/true);
  case UnaryKind::silu_grad: {
    Value s = sigmoid(x);
    return mul(s, add(mul(x, sub(one, s)), one));
  }
  case UnaryKind::logical_not:
    return {};
  }
  llvm_unreachable("unknown unary kind");
}

using EmitBinary = Value (*)(ScalarMath &, Value, Value);
template <typename Op> Value emit(ScalarMath &m, Value x, Value y) {
  return Op::create(m.b, x, y);
}

static Value integerBinary(ScalarMath &m, BinaryKind kind, Value x, Value y,
                           bool isUnsigned) {
  struct Code {
    BinaryKind kind;
    EmitBinary ofSigned, ofUnsigned;
  };
  static constexpr Code codes[] = {
      {BinaryKind::add, emit<arith::AddIOp>, emit<arith::AddIOp>},
      {BinaryKind::sub, emit<arith::SubIOp>, emit<arith::SubIOp>},
      {BinaryKind::mul, emit<arith::MulIOp>, emit<arith::MulIOp>},
      {BinaryKind::div, emit<arith::DivSIOp>, emit<arith::DivUIOp>},
      {BinaryKind::rem, emit<arith::RemSIOp>, emit<arith::RemUIOp>},
      {BinaryKind::maximum, emit<arith::MaxSIOp>, emit<arith::MaxUIOp>},
      {BinaryKind::minimum, emit<arith::MinSIOp>, emit<arith::MinUIOp>},
      {BinaryKind::logical_and, emit<arith::AndIOp>, emit<arith::AndIOp>},
      {BinaryKind::logical_or, emit<arith::OrIOp>, emit<arith::OrIOp>},
      {BinaryKind::logical_xor, emit<arith::XOrIOp>, emit<arith::XOrIOp>}};
  for (const Code &code : codes)
    if (code.kind == kind)
      return (isUnsigned ? code.ofUnsigned : code.ofSigned)(m, x, y);
  return {};
}

Value ScalarMath::binary(BinaryKind kind, Value x, Value y, bool isUnsigned) {
  if (!isa<FloatType>(x.getType()))
    return integerBinary(*this, kind, x, y, isUnsigned);
  switch (kind) {
  case BinaryKind::add:
    return add(x, y);
  case BinaryKind::sub:
    return sub(x, y);
  case BinaryKind::mul:
    return mul(x, y);
  case BinaryKind::div:
    return div(x, y);
  case BinaryKind::pow:
    return math::PowFOp::create(b, x, y);
  case BinaryKind::maximum:
    return arith::MaximumFOp::create(b, x, y);
  case BinaryKind::minimum:
    return arith::MinimumFOp::create(b, x, y);
  case BinaryKind::rem:
    return arith::RemFOp::create(b, x, y);
  default:
    return {};
  }
}

Value ScalarMath::compare(CompareKind kind, Value x, Value y, bool isUnsigned) {
  using F = FloatPredicate;
  using I = IntPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT,
                                 F::OLE, F::OGT, F::OGE};
  static constexpr I integers[] = {I::eq,  I::ne,  I::slt,
                                   I::sle, I::sgt, I::sge};
  static constexpr I whole[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  auto index = static_cast<size_t>(kind);
  if (isa<FloatType>(x.getType()))
    return cmp(b, floats[index], x, y);
  return cmp(b, (isUnsigned ? whole : integers)[index], x, y);
}

/// Rounds toward zero. Values beyond the range of a narrow type wrap around.
static Value toInteger(ScalarMath &m, Value x, Type to, bool isUnsigned) {
  unsigned width = to.getIntOrFloatBitWidth();
  if (isUnsigned && width == 64) {
    Value positive =
        cmp(m.b, FloatPredicate::OGE, x, m.constant(x.getType(), 0));
    return select(m.b, positive, arith::FPToUIOp::create(m.b, to, x),
                  arith::FPToSIOp::create(m.b, to, x));
  }
  if (width >= 32 && !isUnsigned)
    return arith::FPToSIOp::create(m.b, to, x);
  Type wide = width == 32 ? m.b.getI64Type() : m.b.getI32Type();
  return truncate(m.b, to, arith::FPToSIOp::create(m.b, wide, x));
}

Type computedInteger(Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  return IntegerType::get(type.getContext(),
                          width > 1 && width < 8 ? 8 : width);
}

Value ScalarMath::convertElement(Value x, Type from, Type to) {
  if (to.isInteger(1) || isa<FloatType>(to)) {
    bool isInteger = isa<IntegerType>(from);
    if (isInteger && isa<FloatType>(to) && codegen::isUnsigned(from)) {
      Type target = to.isF64() ? to : Type(b.getF32Type());
      return arith::UIToFPOp::create(b, target, x);
    }
    return convert(x, isa<FloatType>(to) && !to.isF64() ? b.getF32Type() : to);
  }
  Type target = computedInteger(to);
  if (isa<FloatType>(from)) {
    x = toInteger(*this, x, target, codegen::isUnsigned(to));
  } else {
    unsigned have = x.getType().getIntOrFloatBitWidth();
    unsigned want = target.getIntOrFloatBitWidth();
    if (have > want)
      x = truncate(b, target, x);
    else if (have < want)
      x = codegen::isUnsigned(from)
              ? extendU(b, target, x)
              : Value(arith::ExtSIOp::create(b, target, x));
  }
  unsigned width = to.getIntOrFloatBitWidth();
  if (width >= 8)
    return x;
  if (codegen::isUnsigned(to))
    return andI(b, x, constant(target, (1 << width) - 1));
  Value rest = constant(target, 8 - width);
  return shiftRightS(b, shiftLeft(b, x, rest), rest);
}

Value ScalarMath::convert(Value x, Type to) {
  Type from = x.getType();
  if (from == to)
    return x;
  unsigned fromBits = from.getIntOrFloatBitWidth();
  unsigned toBits = to.getIntOrFloatBitWidth();
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  if (to.isInteger(1))
    return compare(CompareKind::ne, x, constant(from, 0));
  if (fromFloat && toFloat)
    return fromBits < toBits ? Value(arith::ExtFOp::create(b, to, x))
                             : Value(arith::TruncFOp::create(b, to, x));
  if (fromFloat)
    return arith::FPToSIOp::create(b, to, x);
  if (toFloat)
    return from.isInteger(1) ? Value(arith::UIToFPOp::create(b, to, x))
                             : Value(arith::SIToFPOp::create(b, to, x));
  if (fromBits > toBits)
    return truncate(b, to, x);
  return from.isInteger(1) ? extendU(b, to, x)
                           : Value(arith::ExtSIOp::create(b, to, x));
}

} // namespace dpc::codegen
