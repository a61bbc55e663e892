//===- Elementwise.cpp - Elementwise operations ---------------------------===//
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

template <UnaryKind kind> void unary(Call &c) {
  c.out(c.emit.unary(kind, c.in(0)));
}

/// `ofBooleans` is the logical counterpart for booleans, if there is one.
template <BinaryKind kind, BinaryKind ofBooleans = kind> void binary(Call &c) {
  Val a = c.in(0), b = c.in(1);
  bool isBoolean = a && a.element().isInteger(1);
  c.out(c.emit.binary(isBoolean ? ofBooleans : kind, a, b));
}

void logicalNot(Call &c) {
  Val x = c.in(0);
  if (x && !x.element().isInteger(1)) // all bits
    return c.out(
        c.emit.binary(BinaryKind::sub, c.emit.unary(UnaryKind::neg, x), 1));
  c.out(c.emit.unary(UnaryKind::logical_not, x));
}

void compare(Call &c) {
  auto kind = llvm::StringSwitch<std::optional<CompareKind>>(
                  c.keyword("comparison_direction"))
                  .Case("EQ", CompareKind::eq)
                  .Case("NE", CompareKind::ne)
                  .Case("LT", CompareKind::lt)
                  .Case("LE", CompareKind::le)
                  .Case("GT", CompareKind::gt)
                  .Case("GE", CompareKind::ge)
                  .Default(std::nullopt);
  if (!kind) {
    c.fail("has no comparison_direction; accepted: EQ, NE, LT, LE, GT, GE");
    return;
  }
  Val a = c.in(0), b = c.in(1);
  if (a && b && a.element().isInteger(1)) {
    a = c.emit.convert(a, c.emit.builder.getI64Type());
    b = c.emit.convert(b, c.emit.builder.getI64Type());
  }
  c.out(c.emit.compare(*kind, a, b));
}

void select(Call &c) { c.out(c.emit.select(c.in(0), c.in(1), c.in(2))); }

void clamp(Call &c) {
  Val low = c.in(0), x = c.in(1), high = c.in(2);
  c.out(c.emit.binary(BinaryKind::minimum,
                      c.emit.binary(BinaryKind::maximum, x, low), high));
}

void convert(Call &c) {
  if (RankedTensorType type = c.resultType())
    c.out(c.emit.convert(c.in(0), type.getElementType()));
}

/// exp(x) - 1 = tanh(x / 2) (exp(x) + 1), exact near zero.
void expm1(Call &c) {
  Val x = c.in(0);
  Val half =
      c.emit.unary(UnaryKind::tanh, c.emit.binary(BinaryKind::mul, x, 0.5));
  Val sum =
      c.emit.binary(BinaryKind::add, c.emit.unary(UnaryKind::exp, x), 1.0);
  c.out(c.emit.binary(BinaryKind::mul, half, sum));
}

/// log(1 + x) with u = 1 + x as rounded: x log(u) / (u - 1), exact near zero
/// (Goldberg, "What every computer scientist should know", theorem 4).
void log1p(Call &c) {
  Val x = c.in(0);
  Val u = c.emit.binary(BinaryKind::add, x, 1.0);
  Val step = c.emit.binary(BinaryKind::sub, u, 1.0);
  if (!step)
    return;
  Val log = c.emit.unary(UnaryKind::log, u);
  Val zero = c.emit.scalar(0, x.element()), one = c.emit.scalar(1, x.element());
  Val lost = c.emit.compare(CompareKind::eq, step, zero);
  Val infinite = c.emit.compare(
      CompareKind::eq, u,
      c.emit.scalar(std::numeric_limits<double>::infinity(), x.element()));
  Val factor =
      c.emit.binary(BinaryKind::div, x, c.emit.select(lost, one, step));
  Val near =
      c.emit.select(lost, x, c.emit.binary(BinaryKind::mul, log, factor));
  c.out(c.emit.select(infinite, u, near));
}

void cbrt(Call &c) {
  Val x = c.in(0);
  Val root =
      c.emit.binary(BinaryKind::pow, c.emit.unary(UnaryKind::abs, x), 1.0 / 3);
  c.out(c.emit.binary(BinaryKind::mul, root, c.emit.unary(UnaryKind::sign, x)));
}

void tan(Call &c) {
  Val x = c.in(0);
  c.out(c.emit.binary(BinaryKind::div, c.emit.unary(UnaryKind::sin, x),
                      c.emit.unary(UnaryKind::cos, x)));
}

void erfc(Call &c) {
  Val x = c.in(0);
  if (x)
    c.out(c.emit.binary(BinaryKind::sub, c.emit.scalar(1, x.element()),
                        c.emit.unary(UnaryKind::erf, x)));
}

void square(Call &c) {
  Val x = c.in(0);
  c.out(c.emit.binary(BinaryKind::mul, x, x));
}

/// Rounds to nearest, halves away from zero.
void roundAway(Call &c) {
  Val x = c.in(0);
  Val up = c.emit.unary(
      UnaryKind::floor,
      c.emit.binary(BinaryKind::add, c.emit.unary(UnaryKind::abs, x), 0.5));
  c.out(c.emit.binary(BinaryKind::mul, up, c.emit.unary(UnaryKind::sign, x)));
}

void isFinite(Call &c) {
  Val x = c.in(0);
  if (x)
    c.out(c.emit.compare(
        CompareKind::lt, c.emit.unary(UnaryKind::abs, x),
        c.emit.scalar(std::numeric_limits<double>::infinity(), x.element())));
}

void isInfinite(Call &c) {
  Val x = c.in(0);
  if (x)
    c.out(c.emit.compare(
        CompareKind::eq, c.emit.unary(UnaryKind::abs, x),
        c.emit.scalar(std::numeric_limits<double>::infinity(), x.element())));
}

/// Accepts values whose precision is already at most the target; kernels
/// compute in f32.
void reducePrecision(Call &c) {
  Val x = c.in(0);
  int64_t exponent = c.integer("exponent_bits", 0),
          mantissa = c.integer("mantissa_bits", 0);
  auto element = x ? dyn_cast<FloatType>(x.element()) : FloatType();
  if (!element)
    return;
  unsigned own = element.getFPMantissaWidth() - 1;
  unsigned ownExponent = element.getWidth() - 1 - own;
  if (exponent < ownExponent || mantissa < own) {
    c.fail("cannot reduce the precision to " + llvm::Twine(exponent) +
           " exponent and " + llvm::Twine(mantissa) +
           " mantissa bits; accepted: targets that keep all bits of " +
           describe(x.type()));
    return;
  }
  c.out(x);
}

void identity(Call &c) {
  for (unsigned i = 0; i < c.operands() && i < c.op->getNumResults(); ++i)
    c.out(i, c.in(i));
}

void constant(Call &c) {
  DictionaryAttr properties =
      dyn_cast_if_present<DictionaryAttr>(c.op->getPropertiesAsAttribute());
  Attribute value = properties ? properties.get("value") : Attribute();
  c.out(constantOf(c.emit, value ? value : c.op->getAttr("value")));
}

} // namespace

void addElementwise(OperatorTable &table) {
  table["stablehlo.abs"] = unary<UnaryKind::abs>;
  table["stablehlo.negate"] = unary<UnaryKind::neg>;
  table["stablehlo.exponential"] = unary<UnaryKind::exp>;
  table["stablehlo.exponential_minus_one"] = expm1;
  table["stablehlo.log"] = unary<UnaryKind::log>;
  table["stablehlo.log_plus_one"] = log1p;
  table["stablehlo.sqrt"] = unary<UnaryKind::sqrt>;
  table["stablehlo.rsqrt"] = unary<UnaryKind::rsqrt>;
  table["stablehlo.cbrt"] = cbrt;
  table["stablehlo.tanh"] = unary<UnaryKind::tanh>;
  table["stablehlo.logistic"] = unary<UnaryKind::sigmoid>;
  table["stablehlo.sine"] = unary<UnaryKind::sin>;
  table["stablehlo.cosine"] = unary<UnaryKind::cos>;
  table["stablehlo.tan"] = tan;
  table["stablehlo.floor"] = unary<UnaryKind::floor>;
  table["stablehlo.ceil"] = unary<UnaryKind::ceil>;
  table["stablehlo.sign"] = unary<UnaryKind::sign>;
  table["stablehlo.round_nearest_afz"] = roundAway;
  table["stablehlo.round_nearest_even"] = [](Call &c) {
    c.out(c.emit.round(c.in(0)));
  };
  table["stablehlo.is_finite"] = isFinite;
  table["stablehlo.not"] = logicalNot;
  table["chlo.erf"] = unary<UnaryKind::erf>;
  table["chlo.erfc"] = erfc;
  table["chlo.square"] = square;
  table["chlo.is_inf"] = isInfinite;
  table["stablehlo.add"] = binary<BinaryKind::add, BinaryKind::logical_or>;
  table["stablehlo.subtract"] = binary<BinaryKind::sub>;
  table["stablehlo.multiply"] =
      binary<BinaryKind::mul, BinaryKind::logical_and>;
  table["stablehlo.divide"] = binary<BinaryKind::div>;
  table["stablehlo.maximum"] =
      binary<BinaryKind::maximum, BinaryKind::logical_or>;
  table["stablehlo.minimum"] =
      binary<BinaryKind::minimum, BinaryKind::logical_and>;
  table["stablehlo.power"] = binary<BinaryKind::pow>;
  table["stablehlo.remainder"] = binary<BinaryKind::rem>;
  table["stablehlo.and"] = binary<BinaryKind::logical_and>;
  table["stablehlo.or"] = binary<BinaryKind::logical_or>;
  table["stablehlo.xor"] = binary<BinaryKind::logical_xor>;
  table["stablehlo.compare"] = compare;
  table["stablehlo.select"] = select;
  table["stablehlo.clamp"] = clamp;
  table["stablehlo.convert"] = convert;
  table["stablehlo.reduce_precision"] = reducePrecision;
  table["stablehlo.optimization_barrier"] = identity;
  table["stablehlo.constant"] = constant;
  table["sdy.sharding_constraint"] = identity;
}

} // namespace dpc::frontend::hlo
