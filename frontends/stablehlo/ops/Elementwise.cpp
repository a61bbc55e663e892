//===- Elementwise.cpp - Elementwise operations ---------------------------===//
#include "frontends/emit/Elementwise.h"
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Emits `kind`, or for booleans its logical counterpart `ofBooleans`.
template <BinaryKind kind, BinaryKind ofBooleans>
Val combine(Emitter &e, Val a, Val b) {
  return e.binary(a.element().isInteger(1) ? ofBooleans : kind, a, b);
}

Val compare(Call &c, Val a, Val b) {
  auto kind = llvm::StringSwitch<std::optional<CompareKind>>(
                  c.keyword("comparison_direction"))
                  .Case("EQ", CompareKind::eq)
                  .Case("NE", CompareKind::ne)
                  .Case("LT", CompareKind::lt)
                  .Case("LE", CompareKind::le)
                  .Case("GT", CompareKind::gt)
                  .Case("GE", CompareKind::ge)
                  .Default(std::nullopt);
  if (!kind)
    return c.fail(
        "has no comparison_direction; accepted: EQ, NE, LT, LE, GT, GE");
  if (a.element().isInteger(1)) {
    a = c.emit.convert(a, c.emit.i64());
    b = c.emit.convert(b, c.emit.i64());
  }
  return c.emit.compare(*kind, a, b);
}

Val select(Emitter &e, Val condition, Val a, Val b) {
  return e.select(condition, a, b);
}

Val clamp(Emitter &e, Val low, Val x, Val high) {
  return e.clamp(x, low, high);
}

Val convert(Call &c, Val x) {
  RankedTensorType type = c.resultType();
  return type ? c.emit.convert(x, type.getElementType()) : Val();
}

/// log(1 + x) as x log(u) / (u - 1) with u = 1 + x, accurate near zero
/// (Goldberg, "What every computer scientist should know", theorem 4).
Val log1p(Emitter &e, Val x) {
  Val u = e.add(x, 1);
  Val step = e.sub(u, 1);
  Val log = e.log(u);
  Val lost = e.eq(step, 0);
  Val infinite = e.eq(u, kInfinity);
  Val factor = e.div(x, e.select(lost, 1, step));
  Val near = e.select(lost, x, e.mul(log, factor));
  return e.select(infinite, u, near);
}

Val cbrt(Emitter &e, Val x) {
  Val root = e.pow(e.abs(x), 1.0 / 3);
  return e.mul(root, e.sign(x));
}

Val erfc(Emitter &e, Val x) { return e.sub(1, e.unary(UnaryKind::erf, x)); }

/// Rounds to the nearest integer, and away from zero on ties.
Val roundAway(Emitter &e, Val x) {
  Val up = e.floor(e.add(e.abs(x), 0.5));
  return e.mul(up, e.sign(x));
}

Val isFinite(Emitter &e, Val x) { return e.lt(e.abs(x), kInfinity); }

/// Returns `x`. Fails if the target has less precision than `x`.
Val reducePrecision(Call &c, Val x) {
  int64_t exponent = c.integer("exponent_bits", 0),
          mantissa = c.integer("mantissa_bits", 0);
  auto element = dyn_cast<FloatType>(x.element());
  if (!element)
    return {};
  unsigned own = element.getFPMantissaWidth() - 1;
  unsigned ownExponent = element.getWidth() - 1 - own;
  if (exponent < ownExponent || mantissa < own)
    return c.fail("cannot reduce the precision to {0} exponent and {1} "
                  "mantissa bits; accepted: targets that keep all bits of {2}",
                  exponent, mantissa, x);
  return x;
}

Val identity(Call &c) {
  for (unsigned i = 0; i < c.operands() && i < c.op->getNumResults(); ++i)
    c.out(i, c.in(i));
  return {};
}

Val constant(Call &c) {
  DictionaryAttr properties =
      dyn_cast_if_present<DictionaryAttr>(c.op->getPropertiesAsAttribute());
  Attribute value = properties ? properties.get("value") : Attribute();
  return constantOf(c.emit, value ? value : c.op->getAttr("value"));
}

} // namespace

void addElementwise(OperatorTable &table) {
  table["stablehlo.abs"] = unary<UnaryKind::abs>;
  table["stablehlo.negate"] = unary<UnaryKind::neg>;
  table["stablehlo.exponential"] = unary<UnaryKind::exp>;
  table["stablehlo.exponential_minus_one"] = expMinusOne;
  table["stablehlo.log"] = unary<UnaryKind::log>;
  table["stablehlo.log_plus_one"] = log1p;
  table["stablehlo.sqrt"] = unary<UnaryKind::sqrt>;
  table["stablehlo.rsqrt"] = unary<UnaryKind::rsqrt>;
  table["stablehlo.cbrt"] = cbrt;
  table["stablehlo.tanh"] = unary<UnaryKind::tanh>;
  table["stablehlo.logistic"] = unary<UnaryKind::sigmoid>;
  table["stablehlo.sine"] = unary<UnaryKind::sin>;
  table["stablehlo.cosine"] = unary<UnaryKind::cos>;
  table["stablehlo.tan"] = tangent;
  table["stablehlo.floor"] = unary<UnaryKind::floor>;
  table["stablehlo.ceil"] = unary<UnaryKind::ceil>;
  table["stablehlo.sign"] = unary<UnaryKind::sign>;
  table["stablehlo.round_nearest_afz"] = roundAway;
  table["stablehlo.round_nearest_even"] = round;
  table["stablehlo.is_finite"] = isFinite;
  table["stablehlo.not"] = invert;
  table["chlo.erf"] = unary<UnaryKind::erf>;
  table["chlo.erfc"] = erfc;
  table["chlo.square"] = square;
  table["chlo.is_inf"] = isInfinite;
  table["stablehlo.add"] = combine<BinaryKind::add, BinaryKind::logical_or>;
  table["stablehlo.subtract"] = binary<BinaryKind::sub>;
  table["stablehlo.multiply"] =
      combine<BinaryKind::mul, BinaryKind::logical_and>;
  table["stablehlo.divide"] = binary<BinaryKind::div>;
  table["stablehlo.maximum"] =
      combine<BinaryKind::maximum, BinaryKind::logical_or>;
  table["stablehlo.minimum"] =
      combine<BinaryKind::minimum, BinaryKind::logical_and>;
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
