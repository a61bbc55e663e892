//===- Elementwise.cpp - Elementwise ATen operators -----------------------===//
#include "frontends/emit/Dropout.h"
#include "frontends/torch/Call.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// The argument `name` converted to the element type of the result.
Val asResult(Call &c, llvm::StringRef name) {
  Val x = c.operand(name);
  Type element = c.resultElement();
  return x && element ? c.emit.convert(x, element) : Val();
}

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

template <UnaryKind kind> void unary(Call &c) {
  c.out(c.emit.unary(kind, asResult(c, "self")));
}

void logicalNot(Call &c) {
  Val x = c.tensor("self");
  if (x)
    c.out(c.emit.compare(CompareKind::eq, x, c.emit.scalar(0, x.element())));
}

/// -x - 1 for integers.
void bitwiseNot(Call &c) {
  Val x = c.tensor("self");
  if (!x)
    return;
  if (x.element().isInteger(1))
    return c.out(c.emit.unary(UnaryKind::logical_not, x));
  c.out(c.emit.binary(BinaryKind::sub, c.emit.unary(UnaryKind::neg, x), 1.0));
}

void square(Call &c) {
  Val x = asResult(c, "self");
  c.out(c.emit.binary(BinaryKind::mul, x, x));
}

void gelu(Call &c) {
  std::string form = c.text("approximate");
  if (form != "none" && form != "tanh") {
    c.fail("approximate='" + form + "' is not known; accepted: none, tanh");
    return;
  }
  c.out(c.emit.unary(form == "none" ? UnaryKind::gelu : UnaryKind::gelu_tanh,
                     c.tensor("self")));
}

/// x where it is positive, and `below` elsewhere.
Val piecewise(Emitter &e, Val x, Val below) {
  if (!x || !below)
    return {};
  return e.select(e.compare(CompareKind::gt, x, e.scalar(0, x.element())), x,
                  below);
}

void leakyRelu(Call &c) {
  Val x = c.tensor("self");
  double slope = c.number("negative_slope");
  c.out(piecewise(c.emit, x, c.emit.binary(BinaryKind::mul, x, slope)));
}

/// scale * (x where positive, else alpha * (exp(input_scale * x) - 1)). The
/// minimum keeps the unused branch and its gradient finite.
void elu(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  Val below = e.binary(BinaryKind::mul, e.binary(BinaryKind::minimum, x, 0.0),
                       c.number("input_scale"));
  below = e.binary(BinaryKind::sub, e.unary(UnaryKind::exp, below), 1.0);
  below = e.binary(BinaryKind::mul, below, c.number("alpha"));
  c.out(e.binary(BinaryKind::mul, piecewise(e, x, below), c.number("scale")));
}

/// Elu with the constants of its paper (Klambauer et al., 2017).
void selu(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  Val below = e.unary(UnaryKind::exp, e.binary(BinaryKind::minimum, x, 0.0));
  below = e.binary(BinaryKind::mul, e.binary(BinaryKind::sub, below, 1.0),
                   1.6732632423543772);
  c.out(e.binary(BinaryKind::mul, piecewise(e, x, below), 1.0507009873554805));
}

/// max(x, 0) + log(1 + exp(-|x|)), which never overflows.
Val softplusOf(Emitter &e, Val x) {
  Val decay = e.unary(UnaryKind::exp,
                      e.unary(UnaryKind::neg, e.unary(UnaryKind::abs, x)));
  Val log = e.unary(UnaryKind::log, e.binary(BinaryKind::add, decay, 1.0));
  return e.binary(BinaryKind::add, e.unary(UnaryKind::relu, x), log);
}

/// Above the threshold ATen returns x itself, which is the same number.
void softplus(Call &c) {
  Emitter &e = c.emit;
  double beta = c.number("beta");
  Val y = softplusOf(e, e.binary(BinaryKind::mul, c.tensor("self"), beta));
  c.out(e.binary(BinaryKind::mul, y, 1.0 / beta));
}

void logSigmoid(Call &c) {
  Emitter &e = c.emit;
  Val x = e.unary(UnaryKind::neg, c.tensor("self"));
  c.out(e.unary(UnaryKind::neg, softplusOf(e, x)));
}

void mish(Call &c) {
  Val x = c.tensor("self");
  Val gate = c.emit.unary(UnaryKind::tanh, softplusOf(c.emit, x));
  c.out(c.emit.binary(BinaryKind::mul, x, gate));
}

/// min(max(x / 6 + 1/2, 0), 1).
Val hardGate(Emitter &e, Val x) {
  Val y =
      e.binary(BinaryKind::add, e.binary(BinaryKind::mul, x, 1.0 / 6.0), 0.5);
  return e.binary(BinaryKind::minimum, e.binary(BinaryKind::maximum, y, 0.0),
                  1.0);
}

void hardSigmoid(Call &c) { c.out(hardGate(c.emit, c.tensor("self"))); }

void hardSwish(Call &c) {
  Val x = c.tensor("self");
  c.out(c.emit.binary(BinaryKind::mul, x, hardGate(c.emit, x)));
}

void glu(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("self");
  if (!x)
    return;
  int64_t dim = c.dimOf("dim", x.rank());
  if (e.failed() || x.rank() == 0 || x.dim(dim) % 2) {
    c.fail("cannot halve " + describe(x.type()));
    return;
  }
  int64_t half = x.dim(dim) / 2;
  c.out(e.binary(BinaryKind::mul, e.sliceDim(x, dim, 0, half),
                 e.unary(UnaryKind::sigmoid, e.sliceDim(x, dim, half, half))));
}

//===----------------------------------------------------------------------===//
// Two operands
//===----------------------------------------------------------------------===//

template <BinaryKind kind> void binary(Call &c) {
  c.out(c.emit.binary(kind, asResult(c, "self"), asResult(c, "other")));
}

/// self + alpha * other; `swapped`: other - alpha * self.
template <BinaryKind kind, bool swapped = false> void addScaled(Call &c) {
  Val a = asResult(c, "self"), b = asResult(c, "other");
  if (swapped)
    std::swap(a, b);
  if (double alpha = c.number("alpha"); alpha != 1.0)
    b = c.emit.binary(BinaryKind::mul, b, alpha);
  c.out(c.emit.binary(kind, a, b));
}

/// a / b of integers, rounded down.
Val floorQuotient(Emitter &e, Val a, Val b) {
  Val quotient = e.binary(BinaryKind::div, a, b);
  if (!quotient)
    return {};
  if (quotient.isFloat())
    return e.unary(UnaryKind::floor, quotient);
  Val zero = e.scalar(0, quotient.element());
  Val rest = e.binary(BinaryKind::rem, a, b);
  Val signs =
      e.binary(BinaryKind::logical_xor, e.compare(CompareKind::lt, rest, zero),
               e.compare(CompareKind::lt, b, zero));
  Val wrong = e.binary(BinaryKind::logical_and, signs,
                       e.compare(CompareKind::ne, rest, zero));
  return e.select(wrong, e.binary(BinaryKind::sub, quotient, 1.0), quotient);
}

void divide(Call &c) {
  Emitter &e = c.emit;
  Val a = asResult(c, "self"), b = asResult(c, "other");
  std::string mode = c.text("rounding_mode");
  if (mode == "None")
    return c.out(e.binary(BinaryKind::div, a, b));
  if (mode == "floor")
    return c.out(floorQuotient(e, a, b));
  Val quotient = e.binary(BinaryKind::div, a, b);
  if (!quotient || !quotient.isFloat())
    return c.out(quotient);
  c.out(e.binary(BinaryKind::mul, e.unary(UnaryKind::sign, quotient),
                 e.unary(UnaryKind::floor, e.unary(UnaryKind::abs, quotient))));
}

void floorDivide(Call &c) {
  c.out(floorQuotient(c.emit, asResult(c, "self"), asResult(c, "other")));
}

/// The remainder has the sign of the divisor.
void remainder(Call &c) {
  Emitter &e = c.emit;
  Val a = asResult(c, "self"), b = asResult(c, "other");
  c.out(e.binary(BinaryKind::sub, a,
                 e.binary(BinaryKind::mul, floorQuotient(e, a, b), b)));
}

void pow(Call &c) {
  Emitter &e = c.emit;
  Val base = asResult(c, "self"), exponent = asResult(c, "exponent");
  if (!base || !exponent)
    return;
  // x * x keeps the exact sign and has a gradient everywhere.
  if (exponent.constant && exponent.constant->size() == 1 &&
      exponent.isFloat()) {
    double n = exponent.constant->at(0).f;
    if (n == 1.0)
      return c.out(base);
    if (n == 0.5)
      return c.out(e.unary(UnaryKind::sqrt, base));
    if (n == -0.5)
      return c.out(e.unary(UnaryKind::rsqrt, base));
  }
  c.out(e.binary(BinaryKind::pow, base, exponent));
}

template <CompareKind kind> void compare(Call &c) {
  Val a = c.operand("self"), b = c.operand("other");
  if (!a || !b)
    return;
  Type common = commonType(a, c.isWeak("self"), b, c.isWeak("other"));
  c.out(c.emit.compare(kind, c.emit.convert(a, common),
                       c.emit.convert(b, common)));
}

/// Whether the argument `name` differs from zero.
Val truth(Call &c, llvm::StringRef name) {
  Val x = c.operand(name);
  if (!x || x.element().isInteger(1))
    return x;
  return c.emit.compare(CompareKind::ne, x, c.emit.scalar(0, x.element()));
}

template <BinaryKind kind> void logical(Call &c) {
  c.out(c.emit.binary(kind, truth(c, "self"), truth(c, "other")));
}

template <BinaryKind kind> void bitwise(Call &c) {
  c.out(c.emit.binary(kind, asResult(c, "self"), asResult(c, "other")));
}

void clamp(Call &c) {
  Val x = asResult(c, "self");
  if (c.has("min"))
    x = c.emit.binary(BinaryKind::maximum, x, asResult(c, "min"));
  if (c.has("max"))
    x = c.emit.binary(BinaryKind::minimum, x, asResult(c, "max"));
  c.out(x);
}

void hardTanh(Call &c) {
  Val x = c.emit.binary(BinaryKind::maximum, asResult(c, "self"),
                        asResult(c, "min_val"));
  c.out(c.emit.binary(BinaryKind::minimum, x, asResult(c, "max_val")));
}

void relu6(Call &c) {
  Val x = c.emit.unary(UnaryKind::relu, c.tensor("self"));
  c.out(c.emit.binary(BinaryKind::minimum, x, 6.0));
}

//===----------------------------------------------------------------------===//
// Three operands
//===----------------------------------------------------------------------===//

void where(Call &c) {
  c.out(c.emit.select(truth(c, "condition"), asResult(c, "self"),
                      asResult(c, "other")));
}

void maskedFill(Call &c) {
  c.out(
      c.emit.select(c.tensor("mask"), asResult(c, "value"), c.tensor("self")));
}

/// self + value * tensor1 * tensor2 (or / tensor2).
template <BinaryKind kind> void addProduct(Call &c) {
  Emitter &e = c.emit;
  Val product = e.binary(kind, asResult(c, "tensor1"), asResult(c, "tensor2"));
  double value = c.number("value");
  if (value != 1.0)
    product = e.binary(BinaryKind::mul, product, value);
  c.out(e.binary(BinaryKind::add, asResult(c, "self"), product));
}

void lerp(Call &c) {
  Emitter &e = c.emit;
  Val start = asResult(c, "self");
  Val step = e.binary(BinaryKind::sub, asResult(c, "end"), start);
  c.out(e.binary(BinaryKind::add, start,
                 e.binary(BinaryKind::mul, step, asResult(c, "weight"))));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void identity(Call &c) { c.out(c.tensor("self")); }

/// Conversions; the file states the result type.
void convert(Call &c) { c.out(asResult(c, "self")); }

/// Replaces all values, in the shape and type of `self`.
template <bool scalar> void overwrite(Call &c) {
  Val self = c.tensor("self"), value = c.operand(scalar ? "value" : "src");
  if (self && value)
    c.out(c.emit.broadcastTo(c.emit.convert(value, self.element()),
                             self.shape()));
}

void zero(Call &c) {
  if (Val self = c.tensor("self"))
    c.out(c.emit.splat(0, self.element(), self.shape()));
}

/// The identity in inference. `ofChannels`: drops whole channels of samples.
template <bool ofChannels> void dropout(Call &c) {
  double p = c.flag("train") ? c.number("p") : 0;
  Val x = c.tensor("input");
  if (!x || c.emit.failed())
    return;
  Shape shape(x.shape());
  for (size_t d = 2; ofChannels && d < shape.size(); ++d)
    shape[d] = 1;
  Val kept = dropoutMask(c.emit, shape, p);
  c.out(0, p > 0 ? applyDropout(c.emit, x, kept, p) : x);
  if (c.wants(1))
    c.out(1, kept);
}

} // namespace

static void addUnary(OperatorTable &t) {
  t["neg.default"] = {"self", unary<UnaryKind::neg>};
  t["exp.default"] = {"self", unary<UnaryKind::exp>};
  t["log.default"] = {"self", unary<UnaryKind::log>};
  t["sqrt.default"] = {"self", unary<UnaryKind::sqrt>};
  t["rsqrt.default"] = {"self", unary<UnaryKind::rsqrt>};
  t["reciprocal.default"] = {"self", unary<UnaryKind::reciprocal>};
  t["abs.default"] = {"self", unary<UnaryKind::abs>};
  t["sign.default"] = {"self", unary<UnaryKind::sign>};
  t["floor.default"] = {"self", unary<UnaryKind::floor>};
  t["ceil.default"] = {"self", unary<UnaryKind::ceil>};
  t["tanh.default"] = {"self", unary<UnaryKind::tanh>};
  t["sigmoid.default"] = {"self", unary<UnaryKind::sigmoid>};
  t["relu.default"] = {"self", unary<UnaryKind::relu>};
  t["erf.default"] = {"self", unary<UnaryKind::erf>};
  t["sin.default"] = {"self", unary<UnaryKind::sin>};
  t["cos.default"] = {"self", unary<UnaryKind::cos>};
  t["silu.default"] = {"self", unary<UnaryKind::silu>};
  t["logical_not.default"] = {"self", logicalNot};
  t["bitwise_not.default"] = {"self", bitwiseNot};
  t["square.default"] = {"self", square};
  t["gelu.default"] = {"self, approximate=none", gelu};
  t["leaky_relu.default"] = {"self, negative_slope=0.01", leakyRelu};
  t["elu.default"] = {"self, alpha=1, scale=1, input_scale=1", elu};
  t["selu.default"] = {"self", selu};
  t["softplus.default"] = {"self, beta=1, threshold=20", softplus};
  t["log_sigmoid.default"] = {"self", logSigmoid};
  t["mish.default"] = {"self", mish};
  t["hardsigmoid.default"] = {"self", hardSigmoid};
  t["hardswish.default"] = {"self", hardSwish};
  t["hardtanh.default"] = {"self, min_val=-1, max_val=1", hardTanh};
  t["relu6.default"] = {"self", relu6};
  t["glu.default"] = {"self, dim=-1", glu};
}

template <CompareKind kind>
static void addCompare(OperatorTable &t, const std::string &name) {
  t[name + ".Tensor"] = {"self, other", compare<kind>};
  t[name + ".Scalar"] = {"self, other", compare<kind>};
}

static void addBinary(OperatorTable &t) {
  for (const char *form : {".Tensor", ".Scalar"}) {
    auto name = [&](const char *op) { return std::string(op) + form; };
    llvm::StringRef scaled = "self, other, alpha=1";
    t[name("add")] = {scaled, addScaled<BinaryKind::add>};
    t[name("sub")] = {scaled, addScaled<BinaryKind::sub>};
    t[name("rsub")] = {scaled, addScaled<BinaryKind::sub, true>};
    t[name("mul")] = {"self, other", binary<BinaryKind::mul>};
    t[name("div")] = {"self, other, rounding_mode=None", divide};
    t[name("div") + "_mode"] = {"self, other, rounding_mode", divide};
    t[name("remainder")] = {"self, other", remainder};
    t[name("fmod")] = {"self, other", binary<BinaryKind::rem>};
    for (const char *op : {"bitwise_and", "__and__"})
      t[name(op)] = {"self, other", bitwise<BinaryKind::logical_and>};
    for (const char *op : {"bitwise_or", "__or__"})
      t[name(op)] = {"self, other", bitwise<BinaryKind::logical_or>};
    for (const char *op : {"bitwise_xor", "__xor__"})
      t[name(op)] = {"self, other", bitwise<BinaryKind::logical_xor>};
  }
  t["floor_divide.default"] = {"self, other", floorDivide};
  t["floor_divide.Scalar"] = {"self, other", floorDivide};
  for (const char *form : {"Tensor_Scalar", "Tensor_Tensor", "Scalar"})
    t[std::string("pow.") + form] = {"self, exponent", pow};
  t["maximum.default"] = {"self, other", binary<BinaryKind::maximum>};
  t["minimum.default"] = {"self, other", binary<BinaryKind::minimum>};
  t["max.other"] = {"self, other", binary<BinaryKind::maximum>};
  t["min.other"] = {"self, other", binary<BinaryKind::minimum>};
  t["logical_and.default"] = {"self, other", logical<BinaryKind::logical_and>};
  t["logical_or.default"] = {"self, other", logical<BinaryKind::logical_or>};
  t["logical_xor.default"] = {"self, other", logical<BinaryKind::logical_xor>};
  addCompare<CompareKind::eq>(t, "eq");
  addCompare<CompareKind::ne>(t, "ne");
  addCompare<CompareKind::lt>(t, "lt");
  addCompare<CompareKind::le>(t, "le");
  addCompare<CompareKind::gt>(t, "gt");
  addCompare<CompareKind::ge>(t, "ge");
}

static void addCopies(OperatorTable &t) {
  for (const char *name :
       {"clone.default", "contiguous.default", "alias.default",
        "lift_fresh_copy.default", "lift_fresh.default"})
    t[name] = {"self", identity};
  t["to.dtype"] = {"self, dtype", convert};
  t["to.dtype_layout"] = {"self, dtype=None", convert};
  t["to.device"] = {"self, dtype", convert};
  t["to.other"] = {"self, other", convert};
  t["_to_copy.default"] = {"self, dtype=None", convert};
  t["type_as.default"] = {"self, other", convert};
  for (const char *name :
       {"float", "double", "half", "bfloat16", "long", "int", "bool"})
    t[std::string(name) + ".default"] = {"self", convert};
  t["copy.default"] = {"self, src", overwrite<false>};
  t["fill.Scalar"] = {"self, value", overwrite<true>};
  t["fill.Tensor"] = {"self, value", overwrite<true>};
  t["zero.default"] = {"self", zero};
  t["dropout.default"] = {"input, p, train", dropout<false>};
  t["feature_dropout.default"] = {"input, p, train", dropout<true>};
  t["native_dropout.default"] = {"input, p, train", dropout<false>};
}

void addElementwise(OperatorTable &t) {
  addUnary(t);
  addBinary(t);
  addCopies(t);
  for (const char *name :
       {"clamp.default", "clamp.Tensor", "clip.default", "clip.Tensor"})
    t[name] = {"self, min=None, max=None", clamp};
  t["clamp_min.default"] = {"self, min, max=None", clamp};
  t["clamp_max.default"] = {"self, max, min=None", clamp};
  for (const char *form : {"self", "ScalarOther", "ScalarSelf", "Scalar"})
    t[std::string("where.") + form] = {"condition, self, other", where};
  t["masked_fill.Scalar"] = {"self, mask, value", maskedFill};
  t["masked_fill.Tensor"] = {"self, mask, value", maskedFill};
  t["addcmul.default"] = {"self, tensor1, tensor2, value=1",
                          addProduct<BinaryKind::mul>};
  t["addcdiv.default"] = {"self, tensor1, tensor2, value=1",
                          addProduct<BinaryKind::div>};
  t["lerp.Scalar"] = {"self, end, weight", lerp};
  t["lerp.Tensor"] = {"self, end, weight", lerp};
}

} // namespace dpc::frontend::pt2
