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

Val constant(NodeContext &c) {
  Builder &b = c.emit.builder;
  if (const auto *value = c.findAttr("value"))
    return decoded(c, value->t());
  if (c.hasAttr("value_int"))
    return intScalar(c, c.intAttr("value_int", 0));
  if (c.hasAttr("value_ints"))
    return Val(ConstTensor::ints(c.context(), c.intsAttr("value_ints")));
  if (c.hasAttr("value_float"))
    return c.emit.scalar(c.floatAttr("value_float", 0), b.getF32Type());
  if (const auto *list = c.findAttr("value_floats")) {
    std::vector<Scalar> values;
    for (float f : list->floats())
      values.push_back(makeScalar(f, b.getF32Type()));
    return Val(ConstTensor::dense(b.getF32Type(), {list->floats_size()},
                                  std::move(values)));
  }
  return c.fail("only numeric tensors are supported");
}

Val constantOfShape(NodeContext &c) {
  Shape shape = c.intsIn(0);
  if (c.emit.failed())
    return {};
  if (llvm::any_of(shape, [](int64_t d) { return d < 0; }))
    return c.fail("shape {0} has a negative size", shape);
  Val value = c.emit.scalar(0, c.emit.f32());
  if (const auto *attribute = c.findAttr("value"))
    value = decoded(c, attribute->t());
  if (value && value.constant->size() != 1)
    value = c.fail("value must have one element");
  return value ? Val(ConstTensor::splat(value.element(), shape,
                                        value.constant->at(0)))
               : Val();
}

Val shapeOf(NodeContext &c, Val x) {
  auto clamp = [&](int64_t v) {
    return std::clamp<int64_t>(v < 0 ? v + x.rank() : v, 0, x.rank());
  };
  int64_t start = clamp(c.intAttr("start", 0));
  int64_t end = clamp(c.intAttr("end", x.rank()));
  return Val(ConstTensor::ints(
      c.context(), x.shape().slice(start, std::max<int64_t>(end - start, 0))));
}

Val sizeOf(NodeContext &c, Val x) {
  return intScalar(c, numElements(x.shape()));
}

Val range(NodeContext &c, Val first) {
  double start = c.numberIn(0), limit = c.numberIn(1), step = c.numberIn(2);
  if (c.emit.failed())
    return {};
  if (step == 0.0)
    return c.fail("the step is zero");
  double steps = std::max(0.0, std::ceil((limit - start) / step));
  if (!(steps <= static_cast<double>(kMaxRange)))
    return c.fail("a range of more than {0} elements is not supported",
                  kMaxRange);
  auto count = static_cast<int64_t>(steps);
  std::vector<Scalar> values;
  values.reserve(count);
  for (int64_t n = 0; n < count; ++n)
    values.push_back(
        makeScalar(start + static_cast<double>(n) * step, first.element()));
  return Val(ConstTensor::dense(first.element(), {count}, std::move(values)));
}

/// A rectangular matrix with ones on one diagonal.
Val eyeLike(NodeContext &c, Val x) {
  Type element = x.element();
  if (c.hasAttr("dtype"))
    element =
        elementTypeOf(static_cast<int32_t>(c.intAttr("dtype", 1)), c.context());
  if (!element || x.rank() != 2)
    return c.fail("needs a matrix and a supported element type");
  int64_t k = c.intAttr("k", 0);
  Val ones = c.emit.splat(1, element, x.shape());
  return Val(triangularPart(triangularPart(*ones.constant, k, true), k, false));
}

Val trilu(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t k = c.has(1) ? static_cast<int64_t>(c.numberIn(1)) : 0;
  bool upper = c.intAttr("upper", 1) != 0;
  if (e.failed())
    return {};
  if (x.rank() < 2)
    return c.fail("needs a tensor of rank 2 or more, not {0}", x);
  if (x.constant)
    return Val(triangularPart(*x.constant, k, upper));
  Shape matrix(x.shape().take_back(2));
  Scalar no, yes;
  no.i = 0;
  yes.i = 1;
  Type boolean = e.boolean();
  Val keep(upper ? ConstTensor::triangle(boolean, matrix, no, yes, k)
                 : ConstTensor::triangle(boolean, matrix, yes, no, k + 1));
  return e.select(keep, x, 0);
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
