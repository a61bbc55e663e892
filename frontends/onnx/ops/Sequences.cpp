//===- Sequences.cpp - Sequences of tensors known at import time ----------===//
//
// PyTorch's exporter writes tensor.split() as SplitToSequence and SequenceAt.
// Sequences never reach the module, so positions must be known at import time.
//
//===----------------------------------------------------------------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

Val sequenceOf(std::vector<Val> parts) {
  Val v;
  v.parts = std::make_shared<const std::vector<Val>>(std::move(parts));
  return v;
}

/// The parts of input `i`; notes a failure and returns null if it is a tensor.
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

void addSequenceOps(OpTable &table) {
  table["SplitToSequence"] = splitToSequence;
  table["SequenceConstruct"] = sequenceConstruct;
  table["SequenceAt"] = sequenceAt;
  table["SequenceLength"] = sequenceLength;
  table["ConcatFromSequence"] = concatFromSequence;
}

} // namespace dpc::frontend
