//===- Shapes.cpp - Constants and shape arithmetic ------------------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// The limit for ranges, which are evaluated at import time.
constexpr int64_t kMaxRange = int64_t(1) << 26;

Val decoded(NodeContext &c, const ::onnx::TensorProto &tensor) {
  auto value = c.file.decode(tensor, c.context());
  if (!value)
    return c.fail(llvm::toString(value.takeError()));
  return Val(std::move(*value));
}

/// Exact for every int64_t, unlike Emitter::scalar, which takes a double.
Val intScalar(NodeContext &c, int64_t value) {
  return Val(reshapeTo(ConstTensor::ints(c.context(), {value}), {}));
}

void constant(NodeContext &c) {
  Builder &b = c.emit.builder;
  if (const auto *value = c.findAttr("value"))
    return c.out(decoded(c, value->t()));
  if (c.hasAttr("value_int"))
    return c.out(intScalar(c, c.intAttr("value_int", 0)));
  if (c.hasAttr("value_ints"))
    return c.out(Val(ConstTensor::ints(c.context(), c.intsAttr("value_ints"))));
  if (c.hasAttr("value_float"))
    return c.out(c.emit.scalar(c.floatAttr("value_float", 0), b.getF32Type()));
  if (const auto *list = c.findAttr("value_floats")) {
    std::vector<Scalar> values;
    for (float f : list->floats())
      values.push_back(makeScalar(f, b.getF32Type()));
    return c.out(Val(ConstTensor::dense(b.getF32Type(), {list->floats_size()},
                                        std::move(values))));
  }
  c.fail("only numeric tensors are supported");
}

void constantOfShape(NodeContext &c) {
  Shape shape = c.intsIn(0);
  if (c.emit.failed())
    return;
  if (llvm::any_of(shape, [](int64_t d) { return d < 0; })) {
    c.fail("shape " + describe(shape) + " has a negative size");
    return;
  }
  Val value = c.emit.scalar(0, c.emit.builder.getF32Type());
  if (const auto *attribute = c.findAttr("value"))
    value = decoded(c, attribute->t());
  if (value && value.constant->size() != 1)
    value = c.fail("value must have one element");
  if (value)
    c.out(
        Val(ConstTensor::splat(value.element(), shape, value.constant->at(0))));
}

void shapeOf(NodeContext &c) {
  Val x = c.in(0);
  if (!x)
    return;
  auto clamp = [&](int64_t v) {
    return std::clamp<int64_t>(v < 0 ? v + x.rank() : v, 0, x.rank());
  };
  int64_t start = clamp(c.intAttr("start", 0));
  int64_t end = clamp(c.intAttr("end", x.rank()));
  c.out(Val(ConstTensor::ints(
      c.context(), x.shape().slice(start, std::max<int64_t>(end - start, 0)))));
}

void sizeOf(NodeContext &c) {
  if (Val x = c.in(0))
    c.out(intScalar(c, numElements(x.shape())));
}

void range(NodeContext &c) {
  Val first = c.in(0);
  if (!first)
    return;
  double start = c.numberIn(0), limit = c.numberIn(1), step = c.numberIn(2);
  if (c.emit.failed())
    return;
  if (step == 0.0) {
    c.fail("the step is zero");
    return;
  }
  double steps = std::max(0.0, std::ceil((limit - start) / step));
  if (!(steps <= static_cast<double>(kMaxRange))) {
    c.fail("a range of more than " + llvm::Twine(kMaxRange) +
           " elements is not supported");
    return;
  }
  auto count = static_cast<int64_t>(steps);
  std::vector<Scalar> values;
  values.reserve(count);
  for (int64_t n = 0; n < count; ++n)
    values.push_back(
        makeScalar(start + static_cast<double>(n) * step, first.element()));
  c.out(Val(ConstTensor::dense(first.element(), {count}, std::move(values))));
}

/// A rectangular matrix with ones on one diagonal.
void eyeLike(NodeContext &c) {
  Val x = c.in(0);
  if (!x)
    return;
  Type element = x.element();
  if (c.hasAttr("dtype"))
    element =
        elementTypeOf(static_cast<int32_t>(c.intAttr("dtype", 1)), c.context());
  if (!element || x.rank() != 2) {
    c.fail("needs a matrix and a supported element type");
    return;
  }
  int64_t k = c.intAttr("k", 0);
  Val ones = c.emit.splat(1, element, x.shape());
  c.out(Val(triangularPart(triangularPart(*ones.constant, k, true), k, false)));
}

void trilu(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  int64_t k = c.has(1) ? static_cast<int64_t>(c.numberIn(1)) : 0;
  bool upper = c.intAttr("upper", 1) != 0;
  if (!x || e.failed())
    return;
  if (x.rank() < 2) {
    c.fail("needs a tensor of rank 2 or more, not " + describe(x.type()));
    return;
  }
  if (x.constant)
    return c.out(Val(triangularPart(*x.constant, k, upper)));
  Shape matrix(x.shape().take_back(2));
  Scalar no, yes;
  no.i = 0;
  yes.i = 1;
  Type boolean = e.builder.getI1Type();
  Val keep(upper ? ConstTensor::triangle(boolean, matrix, no, yes, k)
                 : ConstTensor::triangle(boolean, matrix, yes, no, k + 1));
  c.out(e.select(keep, x, e.scalar(0, x.element())));
}

} // namespace

void addShapeOps(OpTable &table) {
  table["Constant"] = constant;
  table["ConstantOfShape"] = constantOfShape;
  table["Shape"] = shapeOf;
  table["Size"] = sizeOf;
  table["Range"] = range;
  table["EyeLike"] = eyeLike;
  table["Trilu"] = trilu;
}

} // namespace dpc::frontend
