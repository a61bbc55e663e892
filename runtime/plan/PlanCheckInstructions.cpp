#include "runtime/base/HostTensor.h"
#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dpc::rt {

namespace {

using Wide = __int128;

/// Limits the product of a tag and the number of micro-batches to 52 bits.
constexpr int64_t kMaxTag = int64_t(1) << 31;

class OpChecker {
public:
  explicit OpChecker(const Plan &plan) : plan(plan) {}

  Status operator()(const KernelOp &op) const {
    if (!isIdentifier(op.symbol))
      return Status::invalid("symbol is \"", op.symbol,
                             "\", expected a C identifier");
    if (plan.kernelFile.empty())
      return Status::invalid("symbol is \"", op.symbol,
                             "\", but the plan has no kernel_file");
    if (!plan.targetGpu.empty() && !plan.kernelLaunches.count(op.symbol))
      return Status::invalid("symbol ", op.symbol,
                             " has no entry in kernel_launches");
    for (int id : op.buffers)
      DPC_TRY(buffer("buffers", id));
    std::set<int> seen;
    for (int position : op.writes) {
      if (position < 0 || position >= static_cast<int>(op.buffers.size()))
        return wrongField("writes", position, "a position in buffers");
      if (!seen.insert(position).second)
        return wrongField("writes", position, "every position once");
    }
    for (const ScalarExpr &expr : op.scalars)
      DPC_TRY(scalar(expr));
    return Status::success();
  }

  Status operator()(const MatmulOp &op) const { return checkMatmul(plan, op); }
  Status operator()(const ExpertMatmulOp &op) const {
    DPC_TRY(scalar(op.first));
    DPC_TRY(scalar(op.valid));
    return checkExpertMatmul(plan, op);
  }
  Status operator()(const ExpertTilesOp &op) const {
    DPC_TRY(scalar(op.first));
    DPC_TRY(scalar(op.valid));
    if (op.group != -1)
      DPC_TRY(group(op.group));
    for (size_t i = 0; i < op.body.size(); ++i)
      if (Status status = inner(op.body[i]); !status.ok())
        return status.in(concat("body[", i, "]"));
    return checkExpertTiles(plan, op);
  }
  Status operator()(const ConvOp &op) const { return checkConv(plan, op); }
  Status operator()(const AttentionOp &op) const {
    return checkAttention(plan, op);
  }
  Status operator()(const AttentionGradOp &op) const {
    return checkAttention(plan, op);
  }

  Status operator()(const AllReduceOp &op) const {
    DPC_TRY(group(op.group));
    if (op.buffers.empty())
      return Status::invalid("buffers is empty");
    for (int id : op.buffers) {
      DPC_TRY(buffer("buffers", id));
      DPC_TRY(reducible(id));
    }
    for (size_t i = 0; i < op.buffers.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (mayOverlap(plan, wholeOf(plan, op.buffers[i]),
                       wholeOf(plan, op.buffers[j])))
          return Status::invalid("buffers lists ", op.buffers[j], " and ",
                                 op.buffers[i], ", which share bytes");
    return Status::success();
  }
  Status operator()(const TransferOp &op) const {
    DPC_TRY(buffer("in", op.in));
    DPC_TRY(buffer("out", op.out));
    const Buffer &in = plan.buffers[op.in], &out = plan.buffers[op.out];
    if ((in.space == Space::Device) == (out.space == Space::Device))
      return Status::invalid(
          "copies from ", nameOf(in.space), " to ", nameOf(out.space),
          " memory, expected exactly one of them to be device");
    if (in.dtype != out.dtype || in.bytes != out.bytes)
      return Status::invalid("in is ", describe(in.dtype, in.shape),
                             ", out is ", describe(out.dtype, out.shape),
                             ", expected equal types and sizes");
    return Status::success();
  }
  Status operator()(const AllGatherOp &op) const {
    DPC_TRY(group(op.group));
    return pairs(op, groupSize(op.group), 1);
  }
  Status operator()(const ReduceScatterOp &op) const {
    DPC_TRY(group(op.group));
    DPC_TRY(pairs(op, 1, groupSize(op.group)));
    for (int id : op.ins)
      DPC_TRY(reducible(id));
    return Status::success();
  }
  Status operator()(const AllToAllOp &op) const {
    DPC_TRY(group(op.group));
    DPC_TRY(sizes(op.in, op.out, 1, 1));
    if (elements(op.in) % groupSize(op.group) != 0)
      return Status::invalid("in has ", elements(op.in),
                             " elements, expected a multiple of the ",
                             groupSize(op.group), " members of the group");
    return Status::success();
  }
  Status operator()(const BroadcastOp &op) const {
    DPC_TRY(group(op.group));
    DPC_TRY(buffer("buffer", op.buffer));
    if (op.root < 0 || op.root >= groupSize(op.group))
      return wrongField("root", op.root, "an index in the group");
    return Status::success();
  }
  Status operator()(const SendOp &op) const { return message(op); }
  Status operator()(const RecvOp &op) const { return message(op); }

  Status operator()(const CopyOp &op) const {
    DPC_TRY(buffer("in", op.in));
    DPC_TRY(buffer("out", op.out));
    if (op.bytes < 0)
      return wrongField("bytes", op.bytes, "at least 0");
    DPC_TRY(range("in_offset", op.in, op.inOffset, op.bytes));
    DPC_TRY(range("out_offset", op.out, op.outOffset, op.bytes));
    return disjoint({op.in, op.inOffset, op.bytes},
                    {op.out, op.outOffset, op.bytes});
  }
  Status operator()(const FillOp &op) const {
    DPC_TRY(buffer("buffer", op.buffer));
    if (!isFloat(plan.buffers[op.buffer].dtype) && !std::isfinite(op.value))
      return Status::invalid("value is not finite, the buffer holds integers");
    return Status::success();
  }
  Status operator()(const LoadInputOp &op) const {
    if (op.input < 0 || op.input >= static_cast<int>(plan.inputs.size()))
      return wrongField("input", op.input, "an index of inputs");
    DPC_TRY(buffer("buffer", op.buffer));
    const Buffer &target = plan.buffers[op.buffer];
    const Buffer &like = plan.buffers[plan.inputs[op.input].buffer];
    if (target.dtype != like.dtype || target.bytes != like.bytes)
      return Status::invalid(
          "buffer ", op.buffer, " holds ", describe(target.dtype, target.shape),
          ", a shard of the input is ", describe(like.dtype, like.shape));
    return Status::success();
  }
  Status operator()(const StoreOutputOp &op) const {
    if (op.output < 0 || op.output >= static_cast<int>(plan.outputs.size()))
      return wrongField("output", op.output, "an index of outputs");
    return Status::success();
  }

private:
  /// Checks an instruction in the body of another one.
  Status inner(const Instruction &instruction) const {
    if (!std::holds_alternative<KernelOp>(instruction.op) &&
        !std::holds_alternative<ExpertMatmulOp>(instruction.op))
      return Status::invalid("op is ", opName(instruction.op),
                             ", expected kernel or expert_matmul");
    if (!instruction.waits.empty() || instruction.signals != -1)
      return Status::invalid("has events");
    if (instruction.queue != Queue::Compute)
      return Status::invalid("queue is ", nameOf(instruction.queue),
                             ", expected compute");
    return std::visit(*this, instruction.op);
  }

  Status buffer(const char *field, int id) const {
    return checkBufferId(plan, field, id);
  }
  Status group(int id) const {
    if (id < 0 || id >= static_cast<int>(plan.groups.size()))
      return Status::invalid("group is ", id, ", the plan has ",
                             plan.groups.size());
    return Status::success();
  }
  int64_t groupSize(int id) const {
    return static_cast<int64_t>(plan.groups[id].members.front().size());
  }
  int64_t elements(int id) const { return numElements(plan.buffers[id].shape); }

  Status reducible(int id) const {
    DType type = plan.buffers[id].dtype;
    if (isFloat(type) || type == DType::I64 || type == DType::I32)
      return Status::success();
    return Status::invalid("buffer ", id, " holds ", nameOf(type),
                           ", which cannot be reduced");
  }

  Status disjoint(const BufferPart &in, const BufferPart &out) const {
    return mayOverlap(plan, in, out) ? Status::invalid("in and out overlap")
                                     : Status::success();
  }

  /// Checks that elements(in) * inFactor = elements(out) * outFactor.
  Status sizes(int in, int out, int64_t inFactor, int64_t outFactor) const {
    DPC_TRY(buffer("in", in));
    DPC_TRY(buffer("out", out));
    if (plan.buffers[in].dtype != plan.buffers[out].dtype)
      return Status::invalid("in and out have different types");
    if (Wide(elements(in)) * inFactor != Wide(elements(out)) * outFactor)
      return Status::invalid("in has ", elements(in), " elements and out ",
                             elements(out), ", which does not fit a group of ",
                             std::max(inFactor, outFactor), " ranks");
    return disjoint(wholeOf(plan, in), wholeOf(plan, out));
  }

  template <typename Op>
  Status pairs(const Op &op, int64_t inFactor, int64_t outFactor) const {
    if (op.ins.empty() || op.ins.size() != op.outs.size())
      return Status::invalid("ins has ", op.ins.size(), " and outs ",
                             op.outs.size(),
                             " buffers, expected equal numbers of at least 1");
    for (size_t i = 0; i < op.ins.size(); ++i)
      DPC_TRY(sizes(op.ins[i], op.outs[i], inFactor, outFactor));
    return Status::success();
  }

  template <typename Op> Status message(const Op &op) const {
    DPC_TRY(group(op.group));
    DPC_TRY(buffer("buffer", op.buffer));
    int64_t size = groupSize(op.group);
    if (op.shift <= -size || op.shift >= size || (op.shift == 0 && size > 1))
      return wrongField("shift", op.shift, "a distance within a group of ",
                        size);
    if (op.tag < 0 || op.tag > kMaxTag)
      return wrongField("tag", op.tag, "0 to ", kMaxTag);
    return Status::success();
  }

  Status range(const char *field, int id, int64_t offset, int64_t bytes) const {
    if (offset < 0 || offset > plan.buffers[id].bytes - bytes)
      return Status::invalid(field, " is ", offset, ", but ", bytes,
                             " bytes from there are outside buffer ", id,
                             ", which has ", plan.buffers[id].bytes);
    return Status::success();
  }

  Status scalar(const ScalarExpr &expr) const {
    if (expr.kind == ScalarKind::Const)
      return Status::success();
    if (expr.size < 0)
      return wrongField("scalars: size", expr.size, "at least 0");
    std::set<std::string> seen;
    for (const std::string &axis : expr.axes)
      if (!plan.mesh.has(axis) || !seen.insert(axis).second)
        return Status::invalid("scalars: axes names \"", axis,
                               "\", which the mesh lacks or which is "
                               "listed twice");
    return checkCells(expr.axes, plan.mesh);
  }

  const Plan &plan;
};

/// Collectives and messages are in the comm queue, transfers in the copy queue,
/// copies and fills in the compute or comm queue, and other instructions in the
/// compute queue.
Status checkQueue(const Instruction &instruction) {
  Queue expected = isCollective(instruction.op) ? Queue::Comm
                   : std::holds_alternative<TransferOp>(instruction.op)
                       ? Queue::Copy
                       : Queue::Compute;
  bool maybeComm = std::holds_alternative<CopyOp>(instruction.op) ||
                   std::holds_alternative<FillOp>(instruction.op);
  if (instruction.queue == expected ||
      (maybeComm && instruction.queue == Queue::Comm))
    return Status::success();
  return Status::invalid("queue is \"", nameOf(instruction.queue),
                         "\", expected \"", nameOf(expected), '"');
}

Status checkInstruction(const Plan &plan, const Instruction &instruction) {
  if (!std::isfinite(instruction.flops) || instruction.flops < 0)
    return Status::invalid("flops is not a number >= 0");
  DPC_TRY(checkQueue(instruction));
  DPC_TRY(std::visit(OpChecker(plan), instruction.op));
  if (std::holds_alternative<TransferOp>(instruction.op))
    return Status::success();
  Accesses accesses = accessesOf(instruction, plan);
  for (const auto *ids : {&accesses.reads, &accesses.writes})
    for (int id : *ids)
      if (plan.buffers[id].space != Space::Device)
        return Status::invalid("buffer ", id, " is in ",
                               nameOf(plan.buffers[id].space),
                               " memory, which only transfers may touch");
  return Status::success();
}

template <typename F> Status forEachInstruction(const Plan &plan, F &&check) {
  for (const auto &[phase, instructions] : plan.phases)
    for (size_t i = 0; i < instructions.size(); ++i)
      if (Status status = check(instructions[i]); !status.ok())
        return status.in(placeOf(plan, phase, i));
  return Status::success();
}

Status checkEvents(const Plan &plan) {
  std::set<int> signalled;
  DPC_TRY(forEachInstruction(plan, [&](const Instruction &instruction) {
    int event = instruction.signals;
    if (event < -1)
      return Status::invalid("signals is ", event, ", expected an event or -1");
    if (event >= 0 && !signalled.insert(event).second)
      return Status::invalid("signals is ", event,
                             ", which another instruction signals");
    return Status::success();
  }));
  return forEachInstruction(plan, [&](const Instruction &instruction) {
    for (int event : instruction.waits)
      if (!signalled.count(event))
        return Status::invalid("waits for event ", event,
                               ", which no instruction signals");
    return Status::success();
  });
}

/// Returns the frames that the instructions of a phase access.
std::set<int> framesOf(const Plan &plan, const std::string &phase) {
  std::set<int> frames;
  for (const Instruction &instruction : plan.phases.at(phase)) {
    Accesses accesses = accessesOf(instruction, plan);
    for (const auto *ids : {&accesses.reads, &accesses.writes})
      for (int id : *ids)
        if (plan.buffers[id].frame >= 0)
          frames.insert(plan.buffers[id].frame);
  }
  return frames;
}

/// Checks that each phase uses only buffers and events of its stage.
Status checkPhases(const Plan &plan) {
  std::map<int, int64_t> stageOfEvent;
  for (const auto &[phase, instructions] : plan.phases)
    for (const Instruction &instruction : instructions)
      if (instruction.signals >= 0)
        stageOfEvent[instruction.signals] =
            PhaseName::parse(phase, plan.mesh)->stage;
  for (const auto &[phase, instructions] : plan.phases) {
    int64_t stage = PhaseName::parse(phase, plan.mesh)->stage;
    for (size_t i = 0; i < instructions.size(); ++i) {
      Accesses accesses = accessesOf(instructions[i], plan);
      for (const auto *ids : {&accesses.reads, &accesses.writes})
        for (int id : *ids)
          if (plan.buffers[id].stage != stage)
            return Status::invalid(placeOf(plan, phase, i), ": buffer ", id,
                                   " belongs to stage ",
                                   plan.buffers[id].stage);
      for (int event : instructions[i].waits)
        if (stageOfEvent.at(event) != stage)
          return Status::invalid(placeOf(plan, phase, i), ": waits for event ",
                                 event, ", which stage ",
                                 stageOfEvent.at(event), " signals");
    }
  }
  return Status::success();
}

Status checkSlots(const Plan &plan, const ScheduleEntry &entry, int64_t stage,
                  const std::set<int> &needed) {
  std::set<int> given;
  for (const FrameSlot &slot : entry.slots) {
    if (slot.frame < 0 || slot.frame >= static_cast<int>(plan.frames.size()) ||
        plan.frames[slot.frame].stage != stage ||
        !given.insert(slot.frame).second)
      return Status::invalid("slots names frame ", slot.frame,
                             ", expected frames of stage ", stage,
                             ", each once");
    if (slot.slot < 0 || slot.slot >= plan.frames[slot.frame].count)
      return wrongField("slot", slot.slot, "less than ",
                        plan.frames[slot.frame].count, ", the slots of frame ",
                        slot.frame);
  }
  for (int frame : needed)
    if (!given.count(frame))
      return Status::invalid("slots lacks frame ", frame, ", which phase ",
                             entry.phase, " uses");
  return Status::success();
}

/// The stage of a phase, and the frames for which its entries need a slot.
struct PhaseNeeds {
  int64_t stage;
  std::set<int> frames;
};

Status checkEntry(const Plan &plan, const ScheduleEntry &entry, int64_t stage,
                  const std::map<std::string, PhaseNeeds> &phases) {
  auto needs = phases.find(entry.phase);
  if (needs == phases.end())
    return Status::invalid("phase is \"", entry.phase,
                           "\", which the plan lacks");
  if (needs->second.stage != stage)
    return Status::invalid("phase is \"", entry.phase,
                           "\", the rank belongs to stage ", stage);
  if (entry.microBatch < 0 || entry.microBatch >= plan.mesh.mostMicroBatches())
    return wrongField("micro_batch", entry.microBatch, "less than ",
                      plan.mesh.mostMicroBatches());
  return checkSlots(plan, entry, stage, needs->second.frames);
}

/// With uneven batch shares, each rank must run the micro-batches of its share.
Status checkShares(const Plan &plan, const std::vector<int> &first) {
  if (plan.mesh.batchShares.empty())
    return Status::success();
  std::vector<std::set<int64_t>> found(plan.ranks());
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::set<int64_t> &own = found[first[rank]];
    if (first[rank] == rank)
      for (const ScheduleEntry &entry : plan.schedule[rank])
        own.insert(entry.microBatch);
    int64_t share = plan.mesh.microBatchesOf(rank);
    if (static_cast<int64_t>(own.size()) != share || *own.rbegin() != share - 1)
      return Status::invalid(
          "schedule[", rank, "] has ", own.size(), " micro-batches up to ",
          (own.empty() ? "none" : std::to_string(*own.rbegin())),
          ", the rank's share in batch_shares is ", share);
  }
  return Status::success();
}

Status checkSchedule(const Plan &plan) {
  if (plan.schedule.size() != static_cast<size_t>(plan.ranks()))
    return Status::invalid("schedule has ", plan.schedule.size(),
                           " lists, the mesh has ", plan.ranks(), " ranks");
  std::map<std::string, PhaseNeeds> phases;
  for (const auto &[phase, instructions] : plan.phases)
    phases[phase] = {PhaseName::parse(phase, plan.mesh)->stage,
                     framesOf(plan, phase)};
  std::vector<int> first = firstWithSchedule(plan);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (size_t i = 0; first[rank] == rank && i < plan.schedule[rank].size();
         ++i) {
      Status status = checkEntry(plan, plan.schedule[rank][i],
                                 plan.mesh.stageOf(rank), phases);
      if (!status.ok())
        return Status::invalid("schedule[", rank, "][", i,
                               "]: ", status.message());
    }
  return checkShares(plan, first);
}

} // namespace

std::vector<int> firstWithSchedule(const Plan &plan) {
  std::vector<int> first;
  std::vector<std::vector<int>> distinct(plan.mesh.stages());
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    auto &ofStage = distinct[plan.mesh.stageOf(rank)];
    auto same = std::find_if(ofStage.begin(), ofStage.end(), [&](int other) {
      return plan.schedule[other] == plan.schedule[rank];
    });
    if (same == ofStage.end())
      same = ofStage.insert(same, rank);
    first.push_back(*same);
  }
  return first;
}

bool mayOverlap(const Plan &plan, const BufferPart &a, const BufferPart &b) {
  const Buffer &first = plan.buffers[a.buffer],
               &second = plan.buffers[b.buffer];
  bool haveFrames = first.frame >= 0 && second.frame >= 0;
  if (a.bytes == 0 || b.bytes == 0 || first.space != second.space ||
      (haveFrames && first.frame != second.frame))
    return false;
  auto rangeOf = [&](const Buffer &buffer, const BufferPart &part) {
    int64_t begin = buffer.offset + part.offset;
    if (buffer.frame < 0 || haveFrames)
      return std::pair(begin, begin + part.bytes);
    const Frame &frame = plan.frames[buffer.frame];
    return std::pair(frame.offset, frame.offset + frame.bytes * frame.count);
  };
  auto [from, fromEnd] = rangeOf(first, a);
  auto [to, toEnd] = rangeOf(second, b);
  return from < toEnd && to < fromEnd;
}

Status checkInstructions(const Plan &plan) {
  for (const auto &[phase, instructions] : plan.phases)
    if (!PhaseName::parse(phase, plan.mesh))
      return Status::invalid(
          "phases: \"", phase, "\" is not the name of a phase, expected ",
          (plan.mesh.has(kPipelineAxis) ? "sSTAGE. followed by " : ""),
          "setup, update, or KIND or KIND.CHUNK with KIND forward, backward or "
          "weight and CHUNK from 1");
  DPC_TRY(forEachInstruction(plan, [&](const Instruction &instruction) {
    return checkInstruction(plan, instruction);
  }));
  DPC_TRY(checkEvents(plan));
  DPC_TRY(checkPhases(plan));
  return checkSchedule(plan);
}

} // namespace dpc::rt
