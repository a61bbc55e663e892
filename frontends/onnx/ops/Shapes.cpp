//===- Shapes.cpp - Constants, shape arithmetic, sequences ----------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// The longest range that is evaluated at import time.
constexpr int64_t kMaxRange = int64_t(1) << 26;

Val decoded(NodeContext &c, const ::onnx::TensorProto &tensor) {
  auto value = c.file.decode(tensor, c.context());
  if (!value)
    return c.fail(llvm::toString(value.takeError()));
  return Val(std::move(*value));
}

/// Accepts every int64_t; Emitter::scalar takes a double, which is not exact.
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

//===----------------------------------------------------------------------===//
// Sequences of tensors
//
// PyTorch exports tensor.split() as SplitToSequence and SequenceAt. The module
// has no sequences, so positions in a sequence must be known at import time.
//===----------------------------------------------------------------------===//

Val sequenceOf(std::vector<Val> parts) {
  Val v;
  v.parts = std::make_shared<const std::vector<Val>>(std::move(parts));
  return v;
}

/// Returns the parts of input `i`; notes a failure if it is not a sequence.
const std::vector<Val> *partsOf(NodeContext &c, int64_t i) {
  Val v = c.in(i);
  if (v && !v.parts)
    c.fail("input {0} must be a sequence", i);
  return v ? v.parts.get() : nullptr;
}

Val splitToSequence(NodeContext &c, Val x) {
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (c.emit.failed())
    return {};
  int64_t total = x.dim(axis);
  bool chunked = !c.has(1) || c.in(1).rank() == 0;
  Shape sizes = c.has(1) ? c.intsIn(1) : Shape{1};
  if (c.emit.failed())
    return {};
  if (chunked) {
    int64_t chunk = std::max<int64_t>(sizes[0], 1);
    sizes.clear();
    for (int64_t begin = 0; begin < total; begin += chunk)
      sizes.push_back(std::min(chunk, total - begin));
  }
  int64_t begin = 0;
  std::vector<Val> parts;
  for (int64_t size : sizes) {
    if (size < 0 || size > total - begin)
      break;
    parts.push_back(c.emit.sliceDim(x, axis, begin, size));
    begin += size;
  }
  if (begin != total || parts.size() != sizes.size())
    return c.fail("parts {0} do not add up to dimension {1} of {2}", sizes,
                  axis, x);
  if (!c.has(1) && !c.intAttr("keepdims", 1))
    for (Val &part : parts) {
      Shape shape(part.shape());
      shape.erase(shape.begin() + axis);
      part = c.emit.reshape(part, shape);
    }
  return sequenceOf(std::move(parts));
}

Val sequenceConstruct(NodeContext &c) {
  std::vector<Val> parts;
  parts.reserve(c.numInputs());
  for (int64_t i = 0; i < c.numInputs(); ++i)
    parts.push_back(c.in(i));
  return c.emit.failed() ? Val() : sequenceOf(std::move(parts));
}

Val sequenceAt(NodeContext &c) {
  const std::vector<Val> *parts = partsOf(c, 0);
  auto at = static_cast<int64_t>(c.numberIn(1));
  if (!parts || c.emit.failed())
    return {};
  auto count = static_cast<int64_t>(parts->size());
  if (at < -count || at >= count)
    return c.fail("position {0} is outside a sequence of {1}", at, count);
  return (*parts)[at < 0 ? at + count : at];
}

Val sequenceLength(NodeContext &c) {
  if (const std::vector<Val> *parts = partsOf(c, 0))
    return Val(reshapeTo(
        ConstTensor::ints(c.context(), {static_cast<int64_t>(parts->size())}),
        {}));
  return {};
}

Val concatFromSequence(NodeContext &c) {
  Emitter &e = c.emit;
  const std::vector<Val> *parts = partsOf(c, 0);
  if (!parts || parts->empty())
    return {};
  bool isNew = c.intAttr("new_axis", 0) != 0;
  int64_t rank = parts->front().rank() + (isNew ? 1 : 0);
  int64_t axis = c.axis(c.intAttr("axis", 0), rank);
  llvm::SmallVector<Val> joined;
  for (const Val &part : *parts) {
    if (part.rank() != parts->front().rank())
      c.fail("the sequence's tensors differ in rank");
    if (e.failed())
      return {};
    Shape shape(part.shape());
    if (isNew)
      shape.insert(shape.begin() + axis, 1);
    joined.push_back(e.reshape(part, shape));
  }
  return e.concat(joined, axis);
}

} // namespace

bool takesSequences(llvm::StringRef op) {
  return op == "SequenceAt" || op == "SequenceLength" ||
         op == "ConcatFromSequence" || op == "Identity";
}

void addShapeOps(OpTable &table) {
  table["Constant"] = constant;
  table["ConstantOfShape"] = constantOfShape;
  table["Shape"] = shapeOf;
  table["Size"] = sizeOf;
  table["Range"] = range;
  table["EyeLike"] = eyeLike;
  table["Trilu"] = trilu;
  table["SplitToSequence"] = splitToSequence;
  table["SequenceConstruct"] = sequenceConstruct;
  table["SequenceAt"] = sequenceAt;
  table["SequenceLength"] = sequenceLength;
  table["ConcatFromSequence"] = concatFromSequence;
}

} // namespace dpc::frontend
