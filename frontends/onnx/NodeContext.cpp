//===- NodeContext.cpp - Conversion context of one ONNX node --------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;
using ::onnx::AttributeProto;

namespace dpc::frontend {

Val NodeContext::in(int64_t i) {
  if (has(i))
    return inputs[i];
  return fail("input {0} is missing", i);
}

llvm::SmallVector<Val> NodeContext::allIn() {
  return llvm::map_to_vector(llvm::seq(numInputs()),
                             [&](int64_t i) { return in(i); });
}

Shape NodeContext::intsIn(int64_t i) {
  Val v = in(i);
  if (!v)
    return {};
  if (v.constant)
    return v.constant->asInts();
  fail(
      "input {0} '{1}' is computed from data; it must be known at compile time",
      i, node.proto.input(i));
  return {};
}

double NodeContext::numberIn(int64_t i) {
  Val v = in(i);
  if (!v)
    return 0.0;
  if (!v.constant || v.constant->size() != 1) {
    fail("input {0} '{1}' must be a constant with one element", i,
         node.proto.input(i));
    return 0.0;
  }
  Scalar s = v.constant->at(0);
  return v.isFloat() ? s.f : static_cast<double>(s.i);
}

const AttributeProto *NodeContext::findAttr(llvm::StringRef name) const {
  for (const AttributeProto &attribute : node.proto.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t NodeContext::intAttr(llvm::StringRef name, int64_t fallback) const {
  const AttributeProto *attribute = findAttr(name);
  return attribute ? attribute->i() : fallback;
}

double NodeContext::floatAttr(llvm::StringRef name, double fallback) const {
  const AttributeProto *attribute = findAttr(name);
  return attribute ? attribute->f() : fallback;
}

llvm::StringRef NodeContext::stringAttr(llvm::StringRef name,
                                        llvm::StringRef fallback) const {
  const AttributeProto *attribute = findAttr(name);
  return attribute ? llvm::StringRef(attribute->s()) : fallback;
}

Shape NodeContext::intsAttr(llvm::StringRef name) const {
  const AttributeProto *attribute = findAttr(name);
  return attribute ? Shape(attribute->ints().begin(), attribute->ints().end())
                   : Shape();
}

std::optional<Shape> NodeContext::intsAttrOrIn(llvm::StringRef name,
                                               int64_t i) {
  if (hasAttr(name))
    return intsAttr(name);
  if (has(i))
    return intsIn(i);
  return std::nullopt;
}

Val NodeContext::secondIn(int64_t i) {
  Val first = in(0), second = in(i);
  if (!first || !second || opset() >= 7 || !hasAttr("axis"))
    return second;
  int64_t behind =
      first.rank() - axis(intAttr("axis", 0), first.rank()) - second.rank();
  if (behind < 0)
    return fail("operand {0} does not fit axis {1}", second,
                intAttr("axis", 0));
  Shape shape(second.shape());
  shape.append(behind, 1);
  return emit.reshape(second, shape);
}

int64_t NodeContext::axis(int64_t value, int64_t rank) {
  if (value < -rank || value >= rank) {
    fail("axis {0} is outside a tensor of rank {1}", value, rank);
    return 0;
  }
  return value < 0 ? value + rank : value;
}

} // namespace dpc::frontend
