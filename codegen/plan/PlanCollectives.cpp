//===- PlanCollectives.cpp - Collectives over planned buffers -------------===//
#include "codegen/plan/PlanBuilder.h"

#include <array>

using namespace mlir;

namespace dpc::codegen {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The group along `axes`. With `ordered` the axes must be in mesh order, in
/// which pieces are stacked.
FailureOr<int> PlanBuilder::groupOf(Operation *op, ArrayAttr axes,
                                    bool ordered) {
  std::vector<std::string> names, sorted;
  for (Attribute axis : axes)
    names.push_back(cast<StringAttr>(axis).getValue().str());
  for (const rt::MeshAxis &axis : draft.plan.mesh.axes)
    if (llvm::is_contained(names, axis.name))
      sorted.push_back(axis.name);
  if (sorted.size() != names.size())
    return op->emitOpError("names an axis that is no rank axis of the mesh");
  if (ordered && sorted != names)
    return op->emitOpError("stacks pieces along axes that are not in the "
                           "mesh's order");
  for (const rt::Group &group : draft.plan.groups)
    if (group.axes == sorted)
      return group.id;
  rt::Group group;
  group.id = draft.plan.groups.size();
  group.axes = sorted;
  group.members = rt::groupMembers(draft.plan.mesh, sorted);
  draft.plan.groups.push_back(std::move(group));
  return draft.plan.groups.back().id;
}

static rt::ReduceKind reduceKind(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::sum:
    return rt::ReduceKind::Sum;
  case ReduceKind::max:
    return rt::ReduceKind::Max;
  case ReduceKind::min:
    return rt::ReduceKind::Min;
  case ReduceKind::prod:
    return rt::ReduceKind::Prod;
  }
  llvm_unreachable("unknown reduction");
}

LogicalResult PlanBuilder::lowerAllReduce(AllReduceOp op) {
  auto group = groupOf(op, op.getAxes(), /*ordered=*/false);
  if (failed(group))
    return failure();
  rt::AllReduceOp reduce;
  reduce.group = *group;
  reduce.kind = reduceKind(op.getKind());
  SmallVector<std::array<int64_t, 3>> taken; // buffer, begin and end
  for (auto [input, result] :
       llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    Slot from = slots[input];
    auto buffer = denseBuffer(from, typeOf(input).getElementType());
    if (!buffer)
      return op.emitOpError("reduces a strided view");
    int64_t begin = from.view.offset;
    std::array<int64_t, 3> elements = {from.buffer, begin,
                                       begin + typeOf(input).getNumElements()};
    auto overlaps = [&](const std::array<int64_t, 3> &other) {
      return elements[0] == other[0] && elements[1] < other[2] &&
             other[1] < elements[2];
    };
    Value root = rootOf(input);
    bool inPlace = root.getDefiningOp() && diesAt(input, op) &&
                   !isPersistent(draft.plan.buffers[from.buffer].kind) &&
                   llvm::none_of(taken, overlaps);
    if (inPlace) {
      taken.push_back(elements);
      slots[result] = from;
    } else {
      Slot copy = newSlot(result);
      emit(phaseOf(op),
           rt::CopyOp{*buffer, copy.buffer, 0, 0,
                      draft.plan.buffers[copy.buffer].bytes},
           "copy");
      buffer = copy.buffer;
    }
    reduce.buffers.push_back(*buffer);
  }
  emit(phaseOf(op), std::move(reduce), nameOfOp(op), rt::Queue::Comm);
  return success();
}

/// The buffer of the parameter whose next value a gathered stack is, as it is
/// and while nobody reads the old one any more; or -1.
int PlanBuilder::gatheredInto(OpResult stack) {
  Operation *terminator = step.getBody().front().getTerminator();
  for (OpOperand &result : terminator->getOpOperands()) {
    auto tie = step.getResultAttrOfType<IntegerAttr>(result.getOperandNumber(),
                                                     attr::kTies);
    Value value = result.get();
    while (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getX();
    if (!tie || value != stack)
      continue;
    Value old = step.getArgument(tie.getInt());
    return typeOf(old).getElementType() == typeOf(stack).getElementType() &&
                   diesAt(old, stack.getOwner())
               ? slots.lookup(old).buffer
               : -1;
  }
  return -1;
}

LogicalResult PlanBuilder::lowerStacked(Operation *op, ArrayAttr axes) {
  auto group = groupOf(op, axes, /*ordered=*/true);
  if (failed(group))
    return failure();
  std::vector<int> ins, outs;
  for (auto [input, output] :
       llvm::zip_equal(op->getOperands(), op->getResults())) {
    auto in = denseBuffer(slots[input], typeOf(input).getElementType());
    if (!in)
      return op->emitOpError("sends a strided view");
    ins.push_back(*in);
    int parameter = isa<AllGatherOp>(op) ? gatheredInto(output) : -1;
    if (parameter >= 0)
      slots[output] = {parameter,
                       StridedView::dense(typeOf(output).getShape())};
    else
      newSlot(output);
    outs.push_back(slots[output].buffer);
  }
  rt::OpVariant call;
  if (isa<AllGatherOp>(op))
    call = rt::AllGatherOp{*group, ins, outs};
  else if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    call =
        rt::ReduceScatterOp{*group, ins, outs, reduceKind(scatter.getKind())};
  else
    call = rt::AllToAllOp{*group, ins.front(), outs.front()};
  emit(phaseOf(op), std::move(call), nameOfOp(op), rt::Queue::Comm);
  return success();
}

/// The group of ranks that differ along "pp" only.
FailureOr<int> PlanBuilder::stageGroup(Operation *op, int64_t peer) {
  int64_t stages = draft.plan.mesh.stages();
  if (peer == stage || peer >= stages)
    return op->emitOpError() << "meets stage " << peer << " from stage "
                             << stage << " of " << stages;
  return groupOf(op, OpBuilder(op).getStrArrayAttr({rt::kPipelineAxis}),
                 /*ordered=*/false);
}

LogicalResult PlanBuilder::lowerSend(SendOp op) {
  auto group = stageGroup(op, op.getTo());
  if (failed(group))
    return failure();
  auto buffer =
      denseBuffer(slots[op.getValue()], typeOf(op.getValue()).getElementType());
  if (!buffer)
    return op.emitOpError("sends a strided view");
  emit(phaseOf(op),
       rt::SendOp{*group, *buffer, static_cast<int>(op.getTo() - stage), false,
                  static_cast<int64_t>(op.getTag())},
       nameOfOp(op), rt::Queue::Comm);
  return success();
}

LogicalResult PlanBuilder::lowerRecv(RecvOp op) {
  auto group = stageGroup(op, op.getFrom());
  if (failed(group))
    return failure();
  int buffer = newSlot(op.getValue()).buffer;
  emit(phaseOf(op),
       rt::RecvOp{*group, buffer, static_cast<int>(op.getFrom() - stage), false,
                  static_cast<int64_t>(op.getTag())},
       nameOfOp(op), rt::Queue::Comm);
  return success();
}

LogicalResult PlanBuilder::lowerRingShift(RingShiftOp op) {
  auto group = groupOf(op, op.getAxes(), /*ordered=*/true);
  if (failed(group))
    return failure();
  auto in =
      denseBuffer(slots[op.getInput()], typeOf(op.getInput()).getElementType());
  if (!in)
    return op.emitOpError("sends a strided view");
  rt::SendOp send;
  send.group = *group;
  send.buffer = *in;
  send.shift = 1;
  send.wrap = true;
  send.tag = ringShifts;
  rt::RecvOp receive;
  receive.group = *group;
  receive.buffer = newSlot(op.getOutput()).buffer;
  receive.shift = -1;
  receive.wrap = true;
  receive.tag = ringShifts++;
  emit(phaseOf(op), std::move(send), nameOfOp(op), rt::Queue::Comm);
  emit(phaseOf(op), std::move(receive), nameOfOp(op), rt::Queue::Comm);
  return success();
}

} // namespace dpc::codegen
