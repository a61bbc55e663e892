//===- Elementwise.cpp - Elementwise ONNX operators -----------------------===//
#include "frontends/emit/Dropout.h"
#include "frontends/onnx/NodeContext.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

template <UnaryKind kind> void unary(NodeContext &c) {
  c.out(c.emit.unary(kind, c.in(0)));
}

template <BinaryKind kind> void binary(NodeContext &c) {
  c.out(c.emit.binary(kind, c.in(0), c.secondIn(1)));
}

template <CompareKind kind> void compare(NodeContext &c) {
  c.out(c.emit.compare(kind, c.in(0), c.secondIn(1)));
}

/// Min, Max, Sum: any number of operands.
template <BinaryKind kind> void variadic(NodeContext &c) {
  Val result = c.in(0);
  for (int64_t i = 1; i < c.numInputs(); ++i)
    result = c.emit.binary(kind, result, c.in(i));
  c.out(result);
}

void mean(NodeContext &c) {
  Val result = c.in(0);
  for (int64_t i = 1; i < c.numInputs(); ++i)
    result = c.emit.binary(BinaryKind::add, result, c.in(i));
  c.out(c.emit.binary(BinaryKind::mul, result,
                      1.0 / static_cast<double>(c.numInputs())));
}

/// The exponent can have another element type than the base.
void pow(NodeContext &c) {
  Val base = c.in(0), exponent = c.secondIn(1);
  if (!base || !exponent)
    return;
  // dpc has no integer power; f64 is exact for up to 53 bits.
  Type element = base.element();
  Type wide = base.isFloat() ? element : c.emit.builder.getF64Type();
  c.out(
      c.emit.convert(c.emit.binary(BinaryKind::pow, c.emit.convert(base, wide),
                                   c.emit.convert(exponent, wide)),
                     element));
}

void mod(NodeContext &c) {
  Emitter &e = c.emit;
  Val a = c.in(0), b = c.in(1);
  Val rest = e.binary(BinaryKind::rem, a, b);
  if (!rest || c.intAttr("fmod", 0) || rest.element().isUnsignedInteger())
    return c.out(rest);
  // Without fmod the result has the sign of the divisor.
  Val zero = e.scalar(0, rest.element());
  Val signs =
      e.binary(BinaryKind::logical_xor, e.compare(CompareKind::lt, rest, zero),
               e.compare(CompareKind::lt, b, zero));
  Val wrong = e.binary(BinaryKind::logical_and, signs,
                       e.compare(CompareKind::ne, rest, zero));
  c.out(e.select(wrong, e.binary(BinaryKind::add, rest, b), rest));
}

void clip(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  Val low = c.has(1) ? c.in(1) : Val(), high = c.has(2) ? c.in(2) : Val();
  if (c.hasAttr("min"))
    low = e.scalar(c.floatAttr("min", 0), x.element());
  if (c.hasAttr("max"))
    high = e.scalar(c.floatAttr("max", 0), x.element());
  if (low)
    x = e.binary(BinaryKind::maximum, x, low);
  if (high)
    x = e.binary(BinaryKind::minimum, x, high);
  c.out(x);
}

void gelu(NodeContext &c) {
  llvm::StringRef form = c.stringAttr("approximate", "none");
  if (form == "none")
    return c.out(c.emit.unary(UnaryKind::gelu, c.in(0)));
  if (form == "tanh")
    return c.out(c.emit.unary(UnaryKind::gelu_tanh, c.in(0)));
  c.fail("approximate='" + form + "' is not known; accepted: none, tanh");
}

void swish(NodeContext &c) {
  Emitter &e = c.emit;
  double alpha = c.floatAttr("alpha", 1.0);
  Val x = c.in(0);
  if (alpha == 1.0)
    return c.out(e.unary(UnaryKind::silu, x));
  Val gate = e.unary(UnaryKind::sigmoid, e.binary(BinaryKind::mul, x, alpha));
  c.out(e.binary(BinaryKind::mul, x, gate));
}

/// x where it is not negative, and `below` elsewhere.
Val piecewise(Emitter &e, Val x, Val below) {
  if (!x || !below)
    return {};
  Val positive = e.compare(CompareKind::ge, x, e.scalar(0, x.element()));
  return e.select(positive, x, below);
}

void leakyRelu(NodeContext &c) {
  Val x = c.in(0);
  double alpha = c.floatAttr("alpha", 0.01);
  c.out(piecewise(c.emit, x, c.emit.binary(BinaryKind::mul, x, alpha)));
}

void prelu(NodeContext &c) {
  Val x = c.in(0), slope = c.in(1);
  if (!x || !slope)
    return;
  // Before operator set 7, one slope per channel.
  if (c.opset() < 7 && slope.rank() == 1 && slope.dim(0) != 1 &&
      x.rank() >= 2) {
    Shape shape(x.rank(), 1);
    shape[1] = slope.dim(0);
    slope = c.emit.reshape(slope, shape);
  }
  c.out(piecewise(c.emit, x, c.emit.binary(BinaryKind::mul, x, slope)));
}

/// scale * (exp(min(x, 0)) - 1), the lower branch of Elu. The minimum keeps the
/// unused branch and its gradient finite.
Val expBelow(Emitter &e, Val x, double scale) {
  Val y = e.unary(UnaryKind::exp, e.binary(BinaryKind::minimum, x, 0.0));
  return e.binary(BinaryKind::mul, e.binary(BinaryKind::sub, y, 1.0), scale);
}

void elu(NodeContext &c) {
  Val x = c.in(0);
  c.out(piecewise(c.emit, x, expBelow(c.emit, x, c.floatAttr("alpha", 1.0))));
}

void selu(NodeContext &c) {
  Val x = c.in(0);
  double alpha = c.floatAttr("alpha", 1.67326319217681884765625);
  double gamma = c.floatAttr("gamma", 1.05070102214813232421875);
  Val y = piecewise(c.emit, x, expBelow(c.emit, x, alpha));
  c.out(c.emit.binary(BinaryKind::mul, y, gamma));
}

/// max(x, 0) + log(1 + exp(-|x|)), which never overflows.
Val softplusOf(Emitter &e, Val x) {
  Val decay = e.unary(UnaryKind::exp,
                      e.unary(UnaryKind::neg, e.unary(UnaryKind::abs, x)));
  Val log = e.unary(UnaryKind::log, e.binary(BinaryKind::add, decay, 1.0));
  return e.binary(BinaryKind::add, e.unary(UnaryKind::relu, x), log);
}

void softplus(NodeContext &c) { c.out(softplusOf(c.emit, c.in(0))); }

void mish(NodeContext &c) {
  Val x = c.in(0);
  Val gate = c.emit.unary(UnaryKind::tanh, softplusOf(c.emit, x));
  c.out(c.emit.binary(BinaryKind::mul, x, gate));
}

Val hardSigmoidOf(Emitter &e, Val x, double alpha, double beta) {
  Val y = e.binary(BinaryKind::add, e.binary(BinaryKind::mul, x, alpha), beta);
  return e.binary(BinaryKind::minimum, e.binary(BinaryKind::maximum, y, 0.0),
                  1.0);
}

void hardSigmoid(NodeContext &c) {
  c.out(hardSigmoidOf(c.emit, c.in(0), c.floatAttr("alpha", 0.2),
                      c.floatAttr("beta", 0.5)));
}

void hardSwish(NodeContext &c) {
  Val x = c.in(0);
  c.out(c.emit.binary(BinaryKind::mul, x,
                      hardSigmoidOf(c.emit, x, 1.0 / 6.0, 0.5)));
}

void softsign(NodeContext &c) {
  Val x = c.in(0);
  Val size =
      c.emit.binary(BinaryKind::add, c.emit.unary(UnaryKind::abs, x), 1.0);
  c.out(c.emit.binary(BinaryKind::div, x, size));
}

void isNaN(NodeContext &c) {
  Val x = c.in(0);
  c.out(c.emit.compare(CompareKind::ne, x, x));
}

void roundToEven(NodeContext &c) { c.out(c.emit.round(c.in(0))); }

void where(NodeContext &c) { c.out(c.emit.select(c.in(0), c.in(1), c.in(2))); }

/// Converts `x` to `element`. 8-bit floats saturate at their largest number
/// unless the node's attribute `saturate` is 0.
Val castTo(NodeContext &c, Val x, Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!x || !type || type.getWidth() > 8 || !c.intAttr("saturate", 1))
    return c.emit.convert(x, element);
  double largest =
      llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  if (!x.isFloat() || x.element().getIntOrFloatBitWidth() < 16)
    x = c.emit.convert(x, c.emit.builder.getF32Type());
  x = c.emit.binary(BinaryKind::minimum,
                    c.emit.binary(BinaryKind::maximum, x, -largest), largest);
  return c.emit.convert(x, element);
}

void cast(NodeContext &c) {
  int64_t to = c.intAttr("to", 0);
  Type element = elementTypeOf(static_cast<int32_t>(to), c.context());
  if (!element) {
    c.fail("element type " + onnxTypeName(static_cast<int32_t>(to)) +
           " is not supported");
    return;
  }
  c.out(castTo(c, c.in(0), element));
}

void castLike(NodeContext &c) {
  if (Val like = c.in(1))
    c.out(castTo(c, c.in(0), like.element()));
}

/// Reinterprets the bits as another type; only for integers and booleans, whose
/// conversion keeps the bits.
void bitCast(NodeContext &c) {
  Val x = c.in(0);
  int64_t to = c.intAttr("to", 0);
  Type element = elementTypeOf(static_cast<int32_t>(to), c.context());
  if (!x)
    return;
  auto bits = [](Type type) {
    return type.isInteger(1) ? 8 : type.getIntOrFloatBitWidth();
  };
  if (x.element() != element &&
      (!element || x.isFloat() || isa<FloatType>(element) ||
       element.isInteger(1) || bits(x.element()) != bits(element))) {
    c.fail("the bits of " + describe(x.type()) + " as " +
           onnxTypeName(static_cast<int32_t>(to)) +
           " are not supported; accepted: from one integer type to another "
           "of the same size");
    return;
  }
  c.out(c.emit.convert(x, element));
}

void identity(NodeContext &c) { c.out(c.in(0)); }

/// Identity in inference.
void dropout(NodeContext &c) {
  bool training = false;
  double ratio = 0.5;
  if (c.opset() >= 12) {
    if (c.has(2))
      training = c.numberIn(2) != 0;
    if (training && c.has(1))
      ratio = c.numberIn(1);
  }
  Val x = c.in(0);
  if (!x || c.emit.failed())
    return;
  double p = training ? ratio : 0;
  Val kept = dropoutMask(c.emit, x.shape(), p);
  c.out(0, p > 0 ? applyDropout(c.emit, x, kept, p) : x);
  if (c.wants(1))
    c.out(1, kept);
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
  table["Add"] = binary<BinaryKind::add>;
  table["Sub"] = binary<BinaryKind::sub>;
  table["Mul"] = binary<BinaryKind::mul>;
  table["Div"] = binary<BinaryKind::div>;
  table["And"] = binary<BinaryKind::logical_and>;
  table["Or"] = binary<BinaryKind::logical_or>;
  table["Xor"] = binary<BinaryKind::logical_xor>;
  table["Round"] = roundToEven;
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
