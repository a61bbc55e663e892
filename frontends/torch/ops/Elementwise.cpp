//===- Elementwise.cpp - Elementwise ATen operators -----------------------===//
#include "frontends/emit/Elementwise.h"
#include "frontends/emit/Dropout.h"
#include "frontends/torch/Call.h"
#include "ir/IndexRange.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

Val logicalNot(Call &c, Val x) { return c.emit.eq(x, 0); }

Val gelu(Call &c) {
  std::string form = c.text("approximate");
  if (form != "none" && form != "tanh")
    return c.fail("approximate='{0}' is not known; accepted: none, tanh", form);
  return c.emit.unary(form == "none" ? UnaryKind::gelu : UnaryKind::gelu_tanh,
                      c.tensor("self"));
}

/// Returns x where x > 0, and `below` elsewhere.
Val piecewise(Emitter &e, Val x, Val below) {
  return e.select(e.gt(x, 0), x, below);
}

Val leakyRelu(Call &c, Val x) {
  return piecewise(c.emit, x, c.emit.mul(x, c.number("negative_slope")));
}

/// scale (x if x > 0, else alpha (exp(input_scale x) - 1)). A minimum in the
/// exponent keeps the gradient finite where x is selected.
Val elu(Call &c, Val x) {
  Emitter &e = c.emit;
  Val below = expBelow(e, x, c.number("alpha"), c.number("input_scale"));
  return e.mul(piecewise(e, x, below), c.number("scale"));
}

/// Elu with the constants of Klambauer et al. (2017).
Val selu(Emitter &e, Val x) {
  Val below = expBelow(e, x, 1.6732632423543772);
  return e.mul(piecewise(e, x, below), 1.0507009873554805);
}

/// ATen returns x above a threshold, where softplus(x) rounds to x.
Val scaledSoftplus(Call &c, Val x) {
  double beta = c.number("beta");
  return c.emit.mul(softplus(c.emit, c.emit.mul(x, beta)), 1.0 / beta);
}

Val logSigmoid(Emitter &e, Val x) { return e.neg(softplus(e, e.neg(x))); }

Val glu(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t dim = c.dimOf("dim", x.rank());
  if (e.failed() || x.rank() == 0 || x.dim(dim) % 2)
    return c.fail("cannot split {0} into halves", x);
  int64_t half = x.dim(dim) / 2;
  return e.mul(e.sliceDim(x, dim, 0, half),
               e.sigmoid(e.sliceDim(x, dim, half, half)));
}

/// self + alpha * other or, if `swapped`, other - alpha * self.
template <BinaryKind kind, bool swapped = false> Val addScaled(Call &c) {
  Val a = c.asResult("self"), b = c.asResult("other");
  if (swapped)
    std::swap(a, b);
  if (double alpha = c.number("alpha"); alpha != 1.0)
    b = c.emit.mul(b, alpha);
  if (a && b && kind == BinaryKind::add && a.element().isInteger(1))
    return c.emit.logicalOr(a, b);
  return c.emit.binary(kind, a, b);
}

/// Of booleans, the product and minimum are "and", the maximum is "or".
template <BinaryKind kind> Val arithmetic(Emitter &e, Val a, Val b) {
  if (a.element().isInteger(1))
    return kind == BinaryKind::maximum ? e.logicalOr(a, b) : e.logicalAnd(a, b);
  return e.binary(kind, a, b);
}

Val floorQuotient(Emitter &e, Val a, Val b) {
  Val quotient = e.div(a, b);
  if (!quotient)
    return {};
  if (quotient.isFloat())
    return e.floor(quotient);
  // An index is not negative, and then division rounds down.
  if (a.value && b.constant && rangeOf(a.value).low >= 0 &&
      llvm::all_of(b.constant->asInts(), [](int64_t n) { return n > 0; }))
    return quotient;
  Val wrong = hasOtherSign(e, e.rem(a, b), b);
  return e.select(wrong, e.sub(quotient, 1), quotient);
}

Val divide(Call &c) {
  Emitter &e = c.emit;
  Val a = c.asResult("self"), b = c.asResult("other");
  std::string mode = c.text("rounding_mode");
  if (mode == "None")
    return e.div(a, b);
  if (mode == "floor")
    return floorQuotient(e, a, b);
  Val quotient = e.div(a, b);
  if (!quotient || !quotient.isFloat())
    return quotient;
  return e.mul(e.sign(quotient), e.floor(e.abs(quotient)));
}

/// The result has the sign of the divisor.
Val remainder(Emitter &e, Val a, Val b) {
  return e.sub(a, e.mul(floorQuotient(e, a, b), b));
}

Val pow(Emitter &e, Val base, Val exponent) {
  if (exponent.constant && exponent.constant->size() == 1 &&
      exponent.isFloat()) {
    double n = exponent.constant->at(0).f;
    if (n == 1.0)
      return base;
    if (n == 0.5)
      return e.sqrt(base);
    if (n == -0.5)
      return e.unary(UnaryKind::rsqrt, base);
  }
  return e.pow(base, exponent);
}

template <CompareKind kind> Val compare(Call &c) {
  Val a = c.operand("self"), b = c.operand("other");
  if (!a || !b)
    return {};
  Type common = commonType(a, c.isWeak("self"), b, c.isWeak("other"));
  return c.emit.compare(kind, c.emit.convert(a, common),
                        c.emit.convert(b, common));
}

Val truth(Call &c, llvm::StringRef name) {
  Val x = c.operand(name);
  if (!x || x.element().isInteger(1))
    return x;
  return c.emit.ne(x, 0);
}

template <BinaryKind kind> Val logical(Call &c) {
  return c.emit.binary(kind, truth(c, "self"), truth(c, "other"));
}

/// As in torch, no gradient passes at a bound that is a number, and half of it
/// at one that is a tensor.
Val clamp(Call &c) {
  bool hasTensors = c.target().ends_with(".Tensor");
  auto bound = [&](BinaryKind kind, Val x, const char *name) {
    if (!c.has(name))
      return x;
    Val y = c.asResult(name);
    return hasTensors ? c.emit.binary(kind, x, y)
                      : c.emit.extremum(kind, x, y, Emitter::Ties::Second);
  };
  Val x = bound(BinaryKind::maximum, c.asResult("self"), "min");
  return bound(BinaryKind::minimum, x, "max");
}

Val hardTanh(Emitter &e, Val x, Val low, Val high) {
  return e.clamp(x, low, high);
}

Val relu6(Emitter &e, Val x) {
  return e.extremum(BinaryKind::minimum, e.relu(x), 6, Emitter::Ties::Second);
}

Val where(Call &c) {
  return c.emit.select(truth(c, "condition"), c.asResult("self"),
                       c.asResult("other"));
}

Val maskedFill(Call &c) {
  return c.emit.select(c.tensor("mask"), c.asResult("value"), c.tensor("self"));
}

/// self + value * tensor1 * tensor2, or self + value * tensor1 / tensor2.
template <BinaryKind kind> Val addProduct(Call &c) {
  Emitter &e = c.emit;
  Val product = e.binary(kind, c.asResult("tensor1"), c.asResult("tensor2"));
  double value = c.number("value");
  if (value != 1.0)
    product = e.mul(product, value);
  return e.add(c.asResult("self"), product);
}

Val lerp(Emitter &e, Val start, Val end, Val weight) {
  Val step = e.sub(end, start);
  return e.add(start, e.mul(step, weight));
}

Val identity(Call &, Val x) { return x; }

/// `asResult` already converted x to the type that the file states.
Val convert(Emitter &, Val x) { return x; }

/// Converts the new value to the shape and type of `self`.
template <bool scalar> Val overwrite(Call &c, Val self) {
  Val value = c.operand(scalar ? "value" : "src");
  return c.emit.broadcastTo(c.emit.convert(value, self.element()),
                            self.shape());
}

Val zero(Call &c, Val self) {
  return c.emit.splat(0, self.element(), self.shape());
}

/// Drops whole channels of samples if `ofChannels`. The identity in inference.
template <bool ofChannels> Val dropout(Call &c, Val x) {
  bool trains = c.flag("train");
  double given = c.number("p"), p = trains ? activeDropout(c.emit, given) : 0;
  noteDropout(c.emit, given, trains);
  if (c.emit.failed())
    return {};
  Shape shape(x.shape());
  for (size_t d = 2; ofChannels && d < shape.size(); ++d)
    shape[d] = 1;
  Val kept = dropoutMask(c.emit, shape, p);
  c.out(0, p > 0 ? applyDropout(c.emit, x, kept, p) : x);
  if (c.wants(1))
    c.out(1, kept);
  return {};
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
  t["bitwise_not.default"] = {"self", invert};
  t["square.default"] = {"self", square};
  t["gelu.default"] = {"self, approximate=none", gelu};
  t["leaky_relu.default"] = {"self, negative_slope=0.01", leakyRelu};
  t["elu.default"] = {"self, alpha=1, scale=1, input_scale=1", elu};
  t["selu.default"] = {"self", selu};
  t["softplus.default"] = {"self, beta=1, threshold=20", scaledSoftplus};
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
    t[name("mul")] = {"self, other", arithmetic<BinaryKind::mul>};
    t[name("div")] = {"self, other, rounding_mode=None", divide};
    t[name("div") + "_mode"] = {"self, other, rounding_mode", divide};
    t[name("remainder")] = {"self, other", remainder};
    t[name("fmod")] = {"self, other", binary<BinaryKind::rem>};
    for (const char *op : {"bitwise_and", "__and__"})
      t[name(op)] = {"self, other", binary<BinaryKind::logical_and>};
    for (const char *op : {"bitwise_or", "__or__"})
      t[name(op)] = {"self, other", binary<BinaryKind::logical_or>};
    for (const char *op : {"bitwise_xor", "__xor__"})
      t[name(op)] = {"self, other", binary<BinaryKind::logical_xor>};
  }
  t["floor_divide.default"] = {"self, other", floorQuotient};
  t["floor_divide.Scalar"] = {"self, other", floorQuotient};
  for (const char *form : {"Tensor_Scalar", "Tensor_Tensor", "Scalar"})
    t[std::string("pow.") + form] = {"self, exponent", pow};
  for (const char *name : {"maximum.default", "max.other"})
    t[name] = {"self, other", arithmetic<BinaryKind::maximum>};
  for (const char *name : {"minimum.default", "min.other"})
    t[name] = {"self, other", arithmetic<BinaryKind::minimum>};
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
  // The forms in place have other names of arguments.
  t["dropout_.default"] = {"self, p, train", dropout<false>};
  t["feature_dropout_.default"] = {"self, p, train", dropout<true>};
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
