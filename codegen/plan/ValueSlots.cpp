//===- ValueSlots.cpp - Where values live ---------------------------------===//
#include "codegen/plan/ValueSlots.h"
#include "codegen/kernel/DTypes.h"
#include "ir/GemmEpilogues.h"

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

/// Whether the optimizer reads `value` as a gradient, through collectives,
/// accumulation and views.
bool ValueSlots::feedsOptimizer(Value value) {
  auto [it, isNew] = optimizerFeeds.try_emplace(value, false);
  if (!isNew)
    return it->second;
  bool feeds = false;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto kernel = dyn_cast<KernelOp>(user)) {
      BlockArgument argument =
          kernel.getBody().front().getArgument(use.getOperandNumber());
      for (Operation *inner : argument.getUsers()) {
        auto adamw = dyn_cast<AdamWOp>(inner);
        auto sgd = dyn_cast<SgdOp>(inner);
        feeds |= (adamw && adamw.getG() == argument) ||
                 (sgd && sgd.getG() == argument);
      }
    } else if (auto reduce = dyn_cast<AllReduceOp>(user)) {
      feeds |= feedsOptimizer(reduce.getOutputs()[use.getOperandNumber()]);
    } else if (isView(user) || isa<AccumulateOp>(user)) {
      feeds |= feedsOptimizer(user->getResult(0));
    }
  }
  optimizerFeeds[value] = feeds;
  return feeds;
}

rt::BufferKind ValueSlots::kindOf(Value value) {
  Operation *op = value.getDefiningOp();
  bool isSum = isa<AccumulateOp>(op) || (matmulOf(op) && sumInPlace(op));
  if (isSum || feedsOptimizer(value))
    return rt::BufferKind::Gradient;
  if (isa<AllGatherOp, ReduceScatterOp, AllToAllOp, RingShiftOp, FetchOp>(op))
    return rt::BufferKind::Communication;
  bool isReceived = isa<RecvOp>(op);
  auto last = order.lastUse.find(value);
  bool crosses =
      last != order.lastUse.end() &&
      last->second < static_cast<int64_t>(order.ops.size()) &&
      schedule.phaseOf(order.ops[last->second]) != schedule.phaseOf(op);
  return crosses      ? rt::BufferKind::Activation
         : isReceived ? rt::BufferKind::Communication
                      : rt::BufferKind::Workspace;
}

Slot ValueSlots::make(Value value) {
  int buffer =
      addBuffer(typeOf(value), kindOf(value), nameOfOp(value.getDefiningOp()));
  return slots[value] = {buffer, StridedView::dense(typeOf(value).getShape())};
}

std::optional<int> ValueSlots::denseBuffer(const Slot &slot, Type elementType) {
  StridedView view = slot.view;
  int64_t begin = std::exchange(view.offset, 0);
  if (!view.isDense())
    return std::nullopt;
  const rt::Buffer root = plan.buffers[slot.buffer];
  int64_t count = rt::numElements({view.shape.begin(), view.shape.end()});
  if (begin == 0 && count == rt::numElements(root.shape))
    return slot.buffer;
  int id = addBuffer(RankedTensorType::get(view.shape, elementType), root.kind,
                     root.name + " (part)");
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
