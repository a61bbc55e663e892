//===- Elementwise.cpp - Elementwise ONNX operators -----------------------===//
#include "frontends/emit/Elementwise.h"
#include "frontends/emit/Dropout.h"
#include "frontends/emit/Functions.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend {

namespace {

template <BinaryKind kind> Val broadcasting(NodeContext &c, Val a) {
  return c.emit.binary(kind, a, c.secondIn(1));
}

template <CompareKind kind> Val compare(NodeContext &c, Val a) {
  return c.emit.compare(kind, a, c.secondIn(1));
}

template <BinaryKind kind> Val variadic(NodeContext &c, Val result) {
  for (int64_t i = 1; i < c.numInputs(); ++i)
    result = c.emit.binary(kind, result, c.in(i));
  return result;
}

Val mean(NodeContext &c, Val first) {
  return c.emit.mul(variadic<BinaryKind::add>(c, first),
                    1.0 / static_cast<double>(c.numInputs()));
}

/// Base and exponent can have different element types.
Val pow(NodeContext &c, Val base) {
  Emitter &e = c.emit;
  Val exponent = c.secondIn(1);
  // dpc has no integer power; f64 represents integers of 53 bits exactly.
  Type element = base.element(), wide = base.isFloat() ? element : e.f64();
  Val power = e.pow(e.convert(base, wide), e.convert(exponent, wide));
  return e.convert(power, element);
}

Val mod(NodeContext &c, Val a, Val b) {
  Emitter &e = c.emit;
  Val rest = e.rem(a, b);
  if (!rest || c.intAttr("fmod", 0) || rest.element().isUnsignedInteger())
    return rest;
  // If fmod is 0, the result has the sign of the divisor.
  return e.select(hasOtherSign(e, rest, b), e.add(rest, b), rest);
}

/// No gradient passes at the bounds, as with torch.clamp.
Val clip(NodeContext &c, Val x) {
  auto bound = [&](BinaryKind kind, Val x, const char *name, int64_t input) {
    if (!c.hasAttr(name) && !c.has(input))
      return x;
    Operand y = c.hasAttr(name) ? Operand(c.floatAttr(name, 0)) : c.in(input);
    return c.emit.extremum(kind, x, y, Emitter::Ties::Second);
  };
  return bound(BinaryKind::minimum, bound(BinaryKind::maximum, x, "min", 1),
               "max", 2);
}

Val gelu(NodeContext &c, Val x) {
  llvm::StringRef form = c.stringAttr("approximate", "none");
  if (form != "none" && form != "tanh")
    return c.fail("approximate='{0}' is not known; accepted: none, tanh", form);
  return c.emit.unary(form == "none" ? UnaryKind::gelu : UnaryKind::gelu_tanh,
                      x);
}

Val swish(NodeContext &c, Val x) {
  double alpha = c.floatAttr("alpha", 1.0);
  return alpha == 1.0 ? c.emit.unary(UnaryKind::silu, x)
                      : c.emit.mul(x, c.emit.sigmoid(c.emit.mul(x, alpha)));
}

/// Returns x where x >= 0, and `below` elsewhere.
Val piecewise(Emitter &e, Val x, Val below) {
  return e.select(e.ge(x, 0), x, below);
}

Val leakyRelu(NodeContext &c, Val x) {
  double alpha = c.floatAttr("alpha", 0.01);
  return piecewise(c.emit, x, c.emit.mul(x, alpha));
}

Val prelu(NodeContext &c, Val x, Val slope) {
  // Before operator set 7, a vector has one slope per channel.
  if (c.opset() < 7 && slope.rank() == 1 && slope.dim(0) != 1 && x.rank() >= 2)
    slope = c.emit.reshape(slope, unitShape(x.rank(), 1, slope.dim(0)));
  return piecewise(c.emit, x, c.emit.mul(x, slope));
}

Val elu(NodeContext &c, Val x) {
  return piecewise(c.emit, x, expBelow(c.emit, x, c.floatAttr("alpha", 1.0)));
}

Val selu(NodeContext &c, Val x) {
  double alpha = c.floatAttr("alpha", 1.67326319217681884765625);
  double gamma = c.floatAttr("gamma", 1.05070102214813232421875);
  Val y = piecewise(c.emit, x, expBelow(c.emit, x, alpha));
  return c.emit.mul(y, gamma);
}

Val scaledHardSigmoid(NodeContext &c, Val x) {
  return hardGate(c.emit, x, c.floatAttr("alpha", 0.2),
                  c.floatAttr("beta", 0.5));
}

Val softsign(Emitter &e, Val x) { return e.div(x, e.add(e.abs(x), 1)); }

Val where(Emitter &e, Val condition, Val a, Val b) {
  return e.select(condition, a, b);
}

/// 8-bit floats saturate at their maximum unless `saturate` is 0.
Val castTo(NodeContext &c, Val x, Type element) {
  Emitter &e = c.emit;
  auto type = dyn_cast<FloatType>(element);
  if (!type || type.getWidth() > 8 || !c.intAttr("saturate", 1))
    return e.convert(x, element);
  double largest =
      llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  if (!x.isFloat() || x.element().getIntOrFloatBitWidth() < 16)
    x = e.convert(x, e.f32());
  return e.convert(e.clamp(x, -largest, largest), element);
}

Val cast(NodeContext &c, Val x) {
  auto to = static_cast<int32_t>(c.intAttr("to", 0));
  Type element = elementTypeOf(to, c.context());
  if (!element)
    return c.fail("element type {0} is not supported", onnxTypeName(to));
  return castTo(c, x, element);
}

Val castLike(NodeContext &c, Val x, Val like) {
  return castTo(c, x, like.element());
}

/// Only for integers and booleans, whose bits dpc's conversions keep.
Val bitCast(NodeContext &c, Val x) {
  auto to = static_cast<int32_t>(c.intAttr("to", 0));
  Type element = elementTypeOf(to, c.context());
  auto bits = [](Type type) {
    return type.isInteger(1) ? 8 : type.getIntOrFloatBitWidth();
  };
  if (x.element() != element &&
      (!element || x.isFloat() || isa<FloatType>(element) ||
       element.isInteger(1) || bits(x.element()) != bits(element)))
    return c.fail("the bits of {0} as {1} are not supported; accepted: from "
                  "one integer type to another of the same size",
                  x, onnxTypeName(to));
  return c.emit.convert(x, element);
}

Val identity(Emitter &, Val x) { return x; }

/// Identity in inference.
Val dropout(NodeContext &c, Val x) {
  bool trains = c.opset() >= 12 && c.has(2) && c.numberIn(2) != 0;
  // In inference, a ratio that is not known does not matter.
  bool isUnknown = !trains && c.has(1) && !c.in(1).constant;
  double given = c.opset() < 12           ? c.floatAttr("ratio", 0.5)
                 : c.has(1) && !isUnknown ? c.numberIn(1)
                                          : 0.5;
  noteDropout(c.emit, given, trains);
  double p = trains ? activeDropout(c.emit, given) : 0;
  if (c.emit.failed())
    return {};
  Val kept = dropoutMask(c.emit, x.shape(), p);
  c.out(0, p > 0 ? applyDropout(c.emit, x, kept, p) : x);
  if (c.wants(1))
    c.out(1, kept);
  return {};
}

} // namespace

static void addActivations(OpTable &table) {
  table["Relu"] = unary<UnaryKind::relu>;
  table["Sigmoid"] = unary<UnaryKind::sigmoid>;
  table["Tanh"] = unary<UnaryKind::tanh>;
  table["Gelu"] = gelu;
  table["Swish"] = swish;
  table["LeakyRelu"] = leakyRelu;
  table["PRelu"] = prelu;
  table["Elu"] = elu;
  table["Selu"] = selu;
  table["Softplus"] = softplus;
  table["Softsign"] = softsign;
  table["Mish"] = mish;
  table["HardSigmoid"] = scaledHardSigmoid;
  table["HardSwish"] = hardSwish;
}

namespace {

template <BinaryKind kind> Val bitwise(NodeContext &c, Val x) {
  return c.emit.binary(kind, x, c.secondIn(1));
}

/// -x - 1, which wraps around if x is unsigned.
Val bitwiseNot(Emitter &e, Val x) { return e.logicalXor(x, -1); }

/// Shifts by each power of two in the binary form of the distance, that is,
/// multiplies or divides by constants.
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
  return e.add(e.relu(x), expBelow(e, x, alpha, 1.0 / alpha));
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

static void addComposed(OpTable &table) {
  table["Tan"] = tangent;
  table["Atan"] = arcTangent;
  table["Asin"] = arcSine;
  table["Acos"] = arcCosine;
  table["Sinh"] = sineHyperbolic;
  table["Cosh"] = cosineHyperbolic;
  table["Asinh"] = areaSine;
  table["Acosh"] = areaCosine;
  table["Atanh"] = areaTangent;
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

void addElementwiseOps(OpTable &table) {
  table["Neg"] = unary<UnaryKind::neg>;
  table["Exp"] = unary<UnaryKind::exp>;
  table["Log"] = unary<UnaryKind::log>;
  table["Sqrt"] = unary<UnaryKind::sqrt>;
  table["Reciprocal"] = unary<UnaryKind::reciprocal>;
  table["Abs"] = unary<UnaryKind::abs>;
  table["Sign"] = unary<UnaryKind::sign>;
  table["Floor"] = unary<UnaryKind::floor>;
  table["Ceil"] = unary<UnaryKind::ceil>;
  table["Erf"] = unary<UnaryKind::erf>;
  table["Sin"] = unary<UnaryKind::sin>;
  table["Cos"] = unary<UnaryKind::cos>;
  table["Not"] = unary<UnaryKind::logical_not>;
  table["Add"] = broadcasting<BinaryKind::add>;
  table["Sub"] = broadcasting<BinaryKind::sub>;
  table["Mul"] = broadcasting<BinaryKind::mul>;
  table["Div"] = broadcasting<BinaryKind::div>;
  table["And"] = broadcasting<BinaryKind::logical_and>;
  table["Or"] = broadcasting<BinaryKind::logical_or>;
  table["Xor"] = broadcasting<BinaryKind::logical_xor>;
  table["Round"] = round;
  table["Pow"] = pow;
  table["Mod"] = mod;
  table["Max"] = variadic<BinaryKind::maximum>;
  table["Min"] = variadic<BinaryKind::minimum>;
  table["Sum"] = variadic<BinaryKind::add>;
  table["Mean"] = mean;
  table["Clip"] = clip;
  table["Equal"] = compare<CompareKind::eq>;
  table["Less"] = compare<CompareKind::lt>;
  table["LessOrEqual"] = compare<CompareKind::le>;
  table["Greater"] = compare<CompareKind::gt>;
  table["GreaterOrEqual"] = compare<CompareKind::ge>;
  table["IsNaN"] = isNaN;
  table["Where"] = where;
  table["Cast"] = cast;
  table["CastLike"] = castLike;
  table["BitCast"] = bitCast;
  table["Identity"] = identity;
  table["Dropout"] = dropout;
  addActivations(table);
  addComposed(table);
}

} // namespace dpc::frontend
