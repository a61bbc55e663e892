//===- Elementwise.cpp - Elementwise ONNX operators -----------------------===//
#include "frontends/emit/Elementwise.h"
#include "frontends/emit/Dropout.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

template <BinaryKind kind> Val broadcasting(NodeContext &c, Val a) {
  return c.emit.binary(kind, a, c.secondIn(1));
}

template <CompareKind kind> Val compare(NodeContext &c, Val a) {
  return c.emit.compare(kind, a, c.secondIn(1));
}

/// Min, Max, Sum: any number of operands.
template <BinaryKind kind> Val variadic(NodeContext &c, Val result) {
  for (int64_t i = 1; i < c.numInputs(); ++i)
    result = c.emit.binary(kind, result, c.in(i));
  return result;
}

Val mean(NodeContext &c, Val first) {
  return c.emit.mul(variadic<BinaryKind::add>(c, first),
                    1.0 / static_cast<double>(c.numInputs()));
}

/// The exponent can have another element type than the base.
Val pow(NodeContext &c, Val base) {
  Emitter &e = c.emit;
  Val exponent = c.secondIn(1);
  // dpc has no integer power; f64 is exact for up to 53 bits.
  Type element = base.element(), wide = base.isFloat() ? element : e.f64();
  Val power = e.pow(e.convert(base, wide), e.convert(exponent, wide));
  return e.convert(power, element);
}

Val mod(NodeContext &c, Val a, Val b) {
  Emitter &e = c.emit;
  Val rest = e.rem(a, b);
  if (!rest || c.intAttr("fmod", 0) || rest.element().isUnsignedInteger())
    return rest;
  // Without fmod the result has the sign of the divisor.
  return e.select(hasOtherSign(e, rest, b), e.add(rest, b), rest);
}

Val clip(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  if (c.hasAttr("min"))
    x = e.maximum(x, c.floatAttr("min", 0));
  else if (c.has(1))
    x = e.maximum(x, c.in(1));
  if (c.hasAttr("max"))
    return e.minimum(x, c.floatAttr("max", 0));
  return c.has(2) ? e.minimum(x, c.in(2)) : x;
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

/// x where it is not negative, and `below` elsewhere.
Val piecewise(Emitter &e, Val x, Val below) {
  return e.select(e.ge(x, 0), x, below);
}

Val leakyRelu(NodeContext &c, Val x) {
  double alpha = c.floatAttr("alpha", 0.01);
  return piecewise(c.emit, x, c.emit.mul(x, alpha));
}

Val prelu(NodeContext &c, Val x, Val slope) {
  // Before operator set 7, one slope per channel.
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

Val hardSigmoid(NodeContext &c, Val x) {
  return hardGate(c.emit, x, c.floatAttr("alpha", 0.2),
                  c.floatAttr("beta", 0.5));
}

Val softsign(Emitter &e, Val x) { return e.div(x, e.add(e.abs(x), 1)); }

Val where(Emitter &e, Val condition, Val a, Val b) {
  return e.select(condition, a, b);
}

/// Converts `x` to `element`. 8-bit floats saturate at their largest number
/// unless the node's attribute `saturate` is 0.
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

/// Reinterprets the bits as another type; only for integers and booleans, whose
/// conversion keeps the bits.
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
  double p = !trains ? 0 : c.has(1) ? c.numberIn(1) : 0.5;
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
  table["HardSigmoid"] = hardSigmoid;
  table["HardSwish"] = hardSwish;
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
}

} // namespace dpc::frontend
