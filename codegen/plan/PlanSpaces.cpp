//===- PlanSpaces.cpp - What lies outside the device's memory -------------===//
#include "codegen/plan/PlanBuilder.h"

using namespace mlir;

namespace dpc::codegen {

LogicalResult PlanBuilder::bindSpace(DictionaryAttr attrs, rt::Buffer &buffer) {
  auto space = attrs ? attrs.getAs<StringAttr>(attr::kSpace) : StringAttr();
  if (!space)
    return success();
  for (rt::Space known : {rt::Space::Host, rt::Space::Disk})
    if (space.getValue() == StringRef(rt::nameOf(known))) {
      buffer.space = known;
      return success();
    }
  return step.emitError() << "'" << buffer.name << "' has " << attr::kSpace
                          << " " << space << ", expected \"host\" or "
                          << "\"disk\"";
}

/// A buffer of its own on the device, filled in the copy queue.
LogicalResult PlanBuilder::lowerFetch(FetchOp op) {
  int from = slots.at(op.getSource()).buffer;
  int to = newSlot(op.getValue()).buffer;
  emit(phaseOf(op), rt::TransferOp{from, to},
       "fetch " + draft.plan.buffers[from].name, rt::Queue::Copy);
  return success();
}

LogicalResult PlanBuilder::lowerStore(StoreOp op) {
  Slot target = slots.at(op.getTarget());
  auto from =
      denseBuffer(slots[op.getValue()],
                  cast<RankedTensorType>(op.getType()).getElementType());
  if (!from)
    return op.emitOpError("stores a strided view");
  emit(phaseOf(op), rt::TransferOp{*from, target.buffer},
       "store " + draft.plan.buffers[target.buffer].name, rt::Queue::Copy);
  slots[op.getResult()] = target;
  return success();
}

/// All of it persists, so nothing shares bytes.
void PlanBuilder::placeInSpaces() {
  constexpr int64_t kAlignment = 64;
  rt::Plan &plan = draft.plan;
  for (auto [space, sizes] : {std::pair(rt::Space::Host, &plan.hostBytes),
                              std::pair(rt::Space::Disk, &plan.diskBytes)}) {
    sizes->resize(plan.mesh.stages());
    int64_t &end = (*sizes)[stage];
    for (rt::Buffer &buffer : plan.buffers)
      if (buffer.stage == stage && buffer.space == space) {
        buffer.offset = end;
        end += llvm::alignTo(buffer.bytes, kAlignment);
      }
  }
}

} // namespace dpc::codegen
