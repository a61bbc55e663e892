//===- ValueSlots.cpp - The buffer and the view of each value -------------===//
#include "codegen/plan/ValueSlots.h"
#include "codegen/kernel/DTypes.h"

using namespace mlir;

namespace dpc::codegen {

const Slot *ValueSlots::find(Value value) const {
  auto it = slots.find(value);
  return it == slots.end() ? nullptr : &it->second;
}

int ValueSlots::addBuffer(RankedTensorType type, rt::BufferKind kind,
                          std::string name) {
  rt::Buffer buffer;
  buffer.id = plan.buffers.size();
  buffer.name = std::move(name);
  buffer.dtype = *dtypeOf(type.getElementType());
  buffer.shape.assign(type.getShape().begin(), type.getShape().end());
  buffer.bytes = rt::numElements(buffer.shape) * rt::sizeOf(buffer.dtype);
  buffer.kind = kind;
  buffer.stage = stage;
  plan.buffers.push_back(std::move(buffer));
  return plan.buffers.back().id;
}

int ValueSlots::addWorkspace(MLIRContext *context, int64_t bytes,
                             std::string name) {
  auto type = RankedTensorType::get(bytes, IntegerType::get(context, 8));
  return addBuffer(type, rt::BufferKind::Workspace, std::move(name));
}

static constexpr rt::BufferKind kKinds[] = {
    rt::BufferKind::Gradient, rt::BufferKind::Communication,
    rt::BufferKind::Activation, rt::BufferKind::Workspace};

int ValueSlots::addBuffer(Value value, rt::BufferKind kind, std::string name) {
  int id = addBuffer(tensorType(value), kind, std::move(name));
  slots[value] = {id, StridedView::dense(shapeOf(value))};
  return id;
}

Slot ValueSlots::make(Value value) {
  BufferUse use = buffers.useOf(value, buffers.lastReaderOf(value));
  addBuffer(value, kKinds[static_cast<int>(use)],
            nameOfOp(value.getDefiningOp()));
  return at(value);
}

std::optional<int> ValueSlots::denseBuffer(Value value) {
  Slot slot = at(value);
  StridedView view = slot.view;
  int64_t begin = std::exchange(view.offset, 0);
  if (!view.isDense())
    return std::nullopt;
  const rt::Buffer root = plan.buffers[slot.buffer];
  int64_t count = rt::numElements({view.shape.begin(), view.shape.end()});
  if (begin == 0 && count == rt::numElements(root.shape))
    return slot.buffer;
  int id = addBuffer(RankedTensorType::get(view.shape, elementTypeOf(value)),
                     root.kind, root.name + " (part)");
  plan.buffers[id].viewOf = slot.buffer;
  plan.buffers[id].offset = begin * rt::sizeOf(root.dtype);
  return id;
}

Slot ValueSlots::makePermuted(Value value, ArrayRef<int64_t> dims) {
  Slot slot = make(value);
  SmallVector<int64_t> shape, inverse(dims.size());
  for (auto [i, d] : llvm::enumerate(dims)) {
    shape.push_back(slot.view.shape[d]);
    inverse[d] = i;
  }
  slot.view = StridedView::dense(shape).transpose(inverse);
  return slots[value] = slot;
}

} // namespace dpc::codegen
