//===- Call.cpp - Conversion context of one operation ---------------------===//
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

bool isSupported(Type element) {
  if (isa<FloatType>(element))
    return element.isF16() || element.isBF16() || element.isF32() ||
           element.isF64();
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer)
    return false;
  unsigned width = integer.getWidth();
  return (width == 1 && integer.isSignless()) || width == 8 || width == 16 ||
         width == 32 || width == 64;
}

Attribute Call::attribute(llvm::StringRef name) const {
  // Ops of unregistered dialects store their properties in a dictionary.
  if (auto properties =
          dyn_cast_if_present<DictionaryAttr>(op->getPropertiesAsAttribute()))
    if (Attribute found = properties.get(name))
      return found;
  return op->getDiscardableAttr(name);
}

Val Call::in(unsigned i) {
  if (i >= op->getNumOperands())
    return fail("has {0} operands, expected at least {1}", op->getNumOperands(),
                i + 1);
  auto found = values.find(op->getOperand(i));
  if (found == values.end() || !found->second)
    return fail("operand {0} is not defined before its use", i);
  return found->second;
}

std::optional<Shape> Call::knownInts(unsigned i) {
  Val value = in(i);
  if (!value || !value.constant || value.isFloat())
    return std::nullopt;
  return value.constant->asInts();
}

RankedTensorType Call::resultType(unsigned i) {
  if (i < op->getNumResults())
    if (auto type = dyn_cast<RankedTensorType>(op->getResult(i).getType()))
      if (type.hasStaticShape() && isSupported(type.getElementType()))
        return type;
  std::string text = "nothing";
  if (i < op->getNumResults()) {
    text.clear();
    llvm::raw_string_ostream(text) << op->getResult(i).getType();
  }
  fail("the result is {0}; accepted: tensors of static shape with elements of "
       "f16, bf16, f32, f64, i1 and integers of 8 to 64 bits",
       text);
  return {};
}

Shape Call::ints(llvm::StringRef name, const Shape &fallback) {
  return attribute(name) ? ints(name) : fallback;
}

Shape Call::ints(llvm::StringRef name) {
  Attribute found = attribute(name);
  if (auto array = dyn_cast_if_present<DenseI64ArrayAttr>(found))
    return Shape(array.asArrayRef());
  if (auto array = dyn_cast_if_present<DenseBoolArrayAttr>(found))
    return Shape(array.asArrayRef().begin(), array.asArrayRef().end());
  // A damaged file can claim any length, so lists have a maximum length.
  constexpr int64_t kMax = 1 << 12;
  Shape values;
  if (auto elements = dyn_cast_if_present<DenseIntElementsAttr>(found)) {
    if (elements.getNumElements() > kMax) {
      fail("'{0}' has {1} numbers; accepted: up to {2}", name,
           std::to_string(elements.getNumElements()), kMax);
      return values;
    }
    bool isBoolean = elements.getElementType().isInteger(1);
    for (const APInt &value : elements.getValues<APInt>())
      values.push_back(isBoolean ? value.getZExtValue() : value.getSExtValue());
    return values;
  }
  fail("has no list of integers '{0}'", name);
  return values;
}

int64_t Call::integer(llvm::StringRef name, int64_t fallback) {
  Attribute found = attribute(name);
  if (!found)
    return fallback;
  if (auto integer = dyn_cast<IntegerAttr>(found))
    return integer.getValue().getSExtValue();
  fail("attribute '{0}' is not an integer", name);
  return fallback;
}

bool Call::flag(llvm::StringRef name) {
  auto found = dyn_cast_if_present<BoolAttr>(attribute(name));
  return found && found.getValue();
}

llvm::StringRef Call::text(llvm::StringRef name) {
  Attribute found = attribute(name);
  if (auto string = dyn_cast_if_present<StringAttr>(found))
    return string.getValue();
  if (auto symbol = dyn_cast_if_present<FlatSymbolRefAttr>(found))
    return symbol.getValue();
  return "";
}

llvm::StringMap<Shape> Call::fields(llvm::StringRef name) {
  auto fields = parseFields(opaqueText(attribute(name)));
  if (fields)
    return *fields;
  fail("attribute '{0}' is missing or malformed", name);
  return {};
}

llvm::StringRef Call::keyword(llvm::StringRef name) {
  return parseEnum(opaqueText(attribute(name)));
}

static Scalar scalarOf(const APFloat &value) {
  APFloat wide = value;
  bool loses;
  wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  Scalar scalar;
  scalar.f = wide.convertToDouble();
  return scalar;
}

Val constantOf(Emitter &e, Attribute attribute) {
  auto elements = dyn_cast_if_present<DenseElementsAttr>(attribute);
  if (!elements)
    return e.fail("the value is not dense<..>; print the module without "
                  "eliding large constants");
  Type element = elements.getElementType();
  auto type = dyn_cast<RankedTensorType>(elements.getType());
  if (!type || !isSupported(element))
    return e.fail("the value has unsupported elements; accepted: f16, bf16, "
                  "f32, f64, i1 and integers of 8 to 64 bits");
  std::vector<Scalar> values;
  auto push = [&](const auto &range, auto convert) {
    if (elements.getNumElements() == 0)
      return;
    if (elements.isSplat()) {
      values.push_back(convert(*range.begin()));
      return;
    }
    values.reserve(static_cast<size_t>(elements.getNumElements()));
    for (const auto &value : range)
      values.push_back(convert(value));
  };
  if (isa<FloatType>(element)) {
    push(elements.getValues<APFloat>(), scalarOf);
  } else {
    bool isUnsigned = element.isInteger(1) || element.isUnsignedInteger();
    push(elements.getValues<APInt>(), [&](const APInt &value) {
      Scalar scalar;
      scalar.i = isUnsigned ? static_cast<int64_t>(value.getZExtValue())
                            : value.getSExtValue();
      return scalar;
    });
  }
  if (elements.isSplat() && type.getNumElements() > 0)
    return Val(ConstTensor::splat(element, type.getShape(), values[0]));
  return Val(ConstTensor::dense(element, type.getShape(), std::move(values)));
}

llvm::StringRef combinersText() {
  return "add, multiply, maximum, minimum, and, or";
}

std::optional<Combiner> combinerOf(Region &region) {
  if (!region.hasOneBlock() || region.front().getNumArguments() != 2)
    return std::nullopt;
  Block &block = region.front();
  if (block.empty() || block.back().getNumOperands() != 1)
    return std::nullopt;
  Value result = block.back().getOperand(0);
  Value a = block.getArgument(0), b = block.getArgument(1);
  if (result == b)
    return Combiner::second;
  Operation *op = result.getDefiningOp();
  if (!op || op->getNumOperands() != 2 ||
      !((op->getOperand(0) == a && op->getOperand(1) == b) ||
        (op->getOperand(0) == b && op->getOperand(1) == a)))
    return std::nullopt;
  auto type = dyn_cast<RankedTensorType>(result.getType());
  bool isBoolean = type && type.getElementType().isInteger(1);
  return llvm::StringSwitch<std::optional<Combiner>>(
             op->getName().stripDialect())
      .Case("add", isBoolean ? Combiner::logicalOr : Combiner::add)
      .Case("multiply", isBoolean ? Combiner::logicalAnd : Combiner::mul)
      .Case("maximum", isBoolean ? Combiner::logicalOr : Combiner::max)
      .Case("minimum", isBoolean ? Combiner::logicalAnd : Combiner::min)
      .Case("and",
            isBoolean ? std::optional(Combiner::logicalAnd) : std::nullopt)
      .Case("or", isBoolean ? std::optional(Combiner::logicalOr) : std::nullopt)
      .Default(std::nullopt);
}

Val combined(Emitter &e, Combiner kind, Val a, Val b) {
  switch (kind) {
  case Combiner::add:
    return e.add(a, b);
  case Combiner::mul:
    return e.mul(a, b);
  case Combiner::max:
    return e.maximum(a, b);
  case Combiner::min:
    return e.minimum(a, b);
  case Combiner::logicalAnd:
    return e.logicalAnd(a, b);
  case Combiner::logicalOr:
    return e.logicalOr(a, b);
  case Combiner::second:
    return b;
  }
  llvm_unreachable("all kinds are handled");
}

Val reducedBy(Emitter &e, Combiner kind, Val x, llvm::ArrayRef<int64_t> dims) {
  if (!x)
    return {};
  switch (kind) {
  case Combiner::add:
    return e.reduce(ReduceKind::sum, x, dims);
  case Combiner::mul:
    return e.reduce(ReduceKind::prod, x, dims);
  case Combiner::max:
    return e.reduce(ReduceKind::max, x, dims);
  case Combiner::min:
    return e.reduce(ReduceKind::min, x, dims);
  case Combiner::logicalAnd:
  case Combiner::logicalOr: {
    Val number = e.convert(x, e.f32());
    bool isAnd = kind == Combiner::logicalAnd;
    return e.convert(
        e.reduce(isAnd ? ReduceKind::min : ReduceKind::max, number, dims),
        x.element());
  }
  case Combiner::second:
    return e.fail("keeps the last element, which is not supported");
  }
  llvm_unreachable("all kinds are handled");
}

static double limitOf(Type element, bool greatest) {
  if (isa<FloatType>(element)) {
    double infinity = std::numeric_limits<double>::infinity();
    return greatest ? infinity : -infinity;
  }
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isUnsignedInteger())
    return greatest ? std::ldexp(1.0, static_cast<int>(width)) - 1 : 0;
  double half = std::ldexp(1.0, static_cast<int>(width) - 1);
  return greatest ? half - 1 : -half;
}

bool isNeutral(Combiner kind, const Val &x) {
  if (!x.constant || x.constant->layout() != ConstTensor::Layout::Splat)
    return false;
  Scalar scalar = x.constant->at(0);
  double value = x.isFloat() ? scalar.f : static_cast<double>(scalar.i);
  switch (kind) {
  case Combiner::add:
  case Combiner::logicalOr:
    return value == 0;
  case Combiner::mul:
  case Combiner::logicalAnd:
    return value == 1;
  case Combiner::max:
    return value == limitOf(x.element(), /*greatest=*/false);
  case Combiner::min:
    return value == limitOf(x.element(), /*greatest=*/true);
  case Combiner::second:
    return false;
  }
  llvm_unreachable("all kinds are handled");
}

} // namespace dpc::frontend::hlo
