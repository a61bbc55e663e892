//===- LowerCollectives.cpp - Collectives, messages and transfers ---------===//
#include "codegen/plan/StageDraft.h"

#include <array>

using namespace mlir;

namespace dpc::codegen {

FailureOr<int> groupOf(StageDraft &s, Operation *op, ArrayAttr axes,
                       bool ordered) {
  std::vector<std::string> names, sorted;
  for (Attribute axis : axes)
    names.push_back(cast<StringAttr>(axis).getValue().str());
  for (const rt::MeshAxis &axis : s.plan.mesh.axes)
    if (llvm::is_contained(names, axis.name))
      sorted.push_back(axis.name);
  if (sorted.size() != names.size())
    return op->emitOpError("names an axis that is not a rank axis of the mesh");
  if (ordered && sorted != names)
    return op->emitOpError("stacks shards along axes that are not in the order "
                           "of the mesh");
  for (const rt::Group &group : s.plan.groups)
    if (group.axes == sorted)
      return group.id;
  rt::Group group;
  group.id = s.plan.groups.size();
  group.axes = sorted;
  group.members = rt::groupMembers(s.plan.mesh, sorted);
  s.plan.groups.push_back(std::move(group));
  return s.plan.groups.back().id;
}

static rt::ReduceKind reduceKind(ReduceKind kind) {
  return *symbolize<rt::ReduceKind>(stringifyReduceKind(kind));
}

LogicalResult lowerAllReduce(StageDraft &s, AllReduceOp op) {
  auto group = groupOf(s, op, op.getAxes(), /*ordered=*/false);
  if (failed(group))
    return failure();
  rt::AllReduceOp reduce;
  reduce.group = *group;
  reduce.kind = reduceKind(op.getKind());
  SmallVector<std::array<int64_t, 3>> taken; // buffer, begin and end
  for (auto [input, result] :
       llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    Slot from = s.slots.at(input);
    FailureOr<int> buffer = contiguousBuffer(s, op, input);
    if (failed(buffer))
      return failure();
    int64_t begin = from.view.offset;
    std::array<int64_t, 3> elements = {
        from.buffer, begin, begin + tensorType(input).getNumElements()};
    auto overlaps = [&](const std::array<int64_t, 3> &other) {
      return elements[0] == other[0] && elements[1] < other[2] &&
             other[1] < elements[2];
    };
    bool inPlace = s.buffers.reusedOperand(cast<OpResult>(result)) &&
                   !isPersistent(s.plan.buffers[from.buffer].kind) &&
                   llvm::none_of(taken, overlaps);
    if (inPlace) {
      taken.push_back(elements);
      s.slots.set(result, from);
    } else {
      Slot copy = s.slots.make(result);
      s.list.emit(s.schedule.phaseOf(op),
                  rt::CopyOp{*buffer, copy.buffer, 0, 0,
                             s.plan.buffers[copy.buffer].bytes},
                  "copy");
      buffer = copy.buffer;
    }
    reduce.buffers.push_back(*buffer);
  }
  s.list.emit(s.schedule.phaseOf(op), std::move(reduce), nameOfOp(op),
              rt::Queue::Comm);
  return success();
}

LogicalResult lowerStacked(StageDraft &s, Operation *op, ArrayAttr axes) {
  auto group = groupOf(s, op, axes, /*ordered=*/true);
  if (failed(group))
    return failure();
  std::vector<int> ins, outs;
  for (auto [input, output] :
       llvm::zip_equal(op->getOperands(), op->getResults())) {
    FailureOr<int> in = contiguousBuffer(s, op, input);
    if (failed(in))
      return failure();
    ins.push_back(*in);
    if (Value parameter = s.buffers.reusedParameter(output))
      s.slots.set(output, {s.slots.at(parameter).buffer,
                           StridedView::dense(shapeOf(output))});
    else
      s.slots.make(output);
    outs.push_back(s.slots.at(output).buffer);
  }
  rt::OpVariant call;
  if (isa<AllGatherOp>(op))
    call = rt::AllGatherOp{*group, ins, outs};
  else if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    call =
        rt::ReduceScatterOp{*group, ins, outs, reduceKind(scatter.getKind())};
  else if (isa<AllToAllOp>(op))
    call = rt::AllToAllOp{*group, ins.front(), outs.front()};
  else
    return op->emitOpError("has no instruction");
  s.list.emit(s.schedule.phaseOf(op), std::move(call), nameOfOp(op),
              rt::Queue::Comm);
  return success();
}

static FailureOr<int> stageGroup(StageDraft &s, Operation *op, int64_t peer) {
  int64_t stages = s.plan.mesh.stages();
  if (peer == s.stage || peer >= stages)
    return op->emitOpError()
           << "in stage " << s.stage << " has the peer stage " << peer
           << "; expected another of the " << stages << " stages";
  return groupOf(s, op, OpBuilder(op).getStrArrayAttr({rt::kPipelineAxis}),
                 /*ordered=*/false);
}

LogicalResult lowerSend(StageDraft &s, SendOp op) {
  FailureOr<int> group = stageGroup(s, op, op.getTo());
  FailureOr<int> buffer = contiguousBuffer(s, op, op.getValue());
  if (failed(group) || failed(buffer))
    return failure();
  s.list.emit(s.schedule.phaseOf(op),
              rt::SendOp{*group, *buffer,
                         static_cast<int>(op.getTo() - s.stage), false,
                         static_cast<int64_t>(op.getTag())},
              nameOfOp(op), rt::Queue::Comm);
  return success();
}

LogicalResult lowerRecv(StageDraft &s, RecvOp op) {
  auto group = stageGroup(s, op, op.getFrom());
  if (failed(group))
    return failure();
  int buffer = s.slots.make(op.getValue()).buffer;
  s.list.emit(s.schedule.phaseOf(op),
              rt::RecvOp{*group, buffer,
                         static_cast<int>(op.getFrom() - s.stage), false,
                         static_cast<int64_t>(op.getTag())},
              nameOfOp(op), rt::Queue::Comm);
  return success();
}

LogicalResult lowerRingShift(StageDraft &s, RingShiftOp op) {
  FailureOr<int> group = groupOf(s, op, op.getAxes(), /*ordered=*/true);
  FailureOr<int> in = contiguousBuffer(s, op, op.getInput());
  if (failed(group) || failed(in))
    return failure();
  int out = s.slots.make(op.getOutput()).buffer;
  int64_t tag = s.ringShifts++;
  s.list.emit(s.schedule.phaseOf(op), rt::SendOp{*group, *in, 1, true, tag},
              nameOfOp(op), rt::Queue::Comm);
  s.list.emit(s.schedule.phaseOf(op), rt::RecvOp{*group, out, -1, true, tag},
              nameOfOp(op), rt::Queue::Comm);
  return success();
}

LogicalResult lowerFetch(StageDraft &s, FetchOp op) {
  int from = s.slots.at(op.getSource()).buffer;
  int to = s.slots.make(op.getValue()).buffer;
  s.list.emit(s.schedule.phaseOf(op), rt::TransferOp{from, to},
              "fetch " + s.plan.buffers[from].name, rt::Queue::Copy);
  return success();
}

LogicalResult lowerStore(StageDraft &s, StoreOp op) {
  Slot target = s.slots.at(op.getTarget());
  FailureOr<int> from = contiguousBuffer(s, op, op.getValue());
  if (failed(from))
    return failure();
  s.list.emit(s.schedule.phaseOf(op), rt::TransferOp{*from, target.buffer},
              "store " + s.plan.buffers[target.buffer].name, rt::Queue::Copy);
  s.slots.set(op.getResult(), target);
  return success();
}

} // namespace dpc::codegen
