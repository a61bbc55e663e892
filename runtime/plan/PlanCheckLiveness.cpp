#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/QueueOrder.h"

#include <algorithm>
#include <map>

namespace dpc::rt {

namespace {

/// Which bytes of a buffer were written since it last came to life, as
/// disjoint ranges (begin to end).
class Coverage {
public:
  void clear() { ranges.clear(); }
  void add(int64_t begin, int64_t end) {
    auto it = ranges.lower_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second >= begin)
      --it;
    while (it != ranges.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ranges.erase(it);
    }
    ranges[begin] = end;
  }
  bool contains(int64_t begin, int64_t end) const {
    auto it = ranges.upper_bound(begin);
    return it != ranges.begin() && std::prev(it)->second >= end;
  }

private:
  std::map<int64_t, int64_t> ranges;
};

/// Walks one rank's schedule in order.
class Walk {
public:
  Walk(const Plan &plan, const PlacedBuffers &placed)
      : plan(plan), placed(placed), order(placed), written(placed.size()),
        writer(placed.size(), 0) {
    for (size_t place = 0; place < placed.size(); ++place) {
      const Buffer &buffer = plan.buffers[placed.bufferAt(place)];
      if (isPersistent(buffer.kind)) // never in a frame
        written[rootPlace(buffer.id, {})].add(buffer.offset,
                                              buffer.offset + buffer.bytes);
    }
  }

  Status run(const std::vector<ScheduleEntry> &schedule) {
    for (const ScheduleEntry &entry : schedule) {
      const auto &instructions = plan.phases.at(entry.phase);
      for (size_t i = 0; i < instructions.size(); ++i)
        if (Status status = step(instructions[i], entry); !status.ok())
          return Status(status.code(), placeOf(plan, entry.phase, i) + ": " +
                                           status.message());
    }
    return Status::success();
  }

  /// Whether the buffer's bytes hold its value.
  bool holds(int id, const std::vector<FrameSlot> &slots) const {
    const Buffer &buffer = plan.buffers[id];
    return buffer.bytes == 0 ||
           written[rootPlace(id, slots)].contains(buffer.offset,
                                                  buffer.offset + buffer.bytes);
  }

private:
  int rootPlace(int id, const std::vector<FrameSlot> &slots) const {
    return placed.placeOf(rootOf(plan, id), slots);
  }

  Status step(const Instruction &instruction, const ScheduleEntry &entry) {
    Accesses accesses = accessesOf(instruction, plan);
    for (int id : accesses.reads)
      DPC_TRY(read(id, entry));
    Status status;
    order.step(instruction, accesses, entry.slots,
               [&](const QueueOrder::Conflict &conflict) {
                 status = unordered(conflict);
                 return false;
               });
    for (int id : accesses.writes)
      write(id, entry);
    return status;
  }

  Status read(int id, const ScheduleEntry &entry) const {
    if (!holds(id, entry.slots))
      return Status::invalid("reads " + describeBuffer(id) +
                             ", which is not written before or whose bytes "
                             "another buffer took");
    int64_t made = writer[rootPlace(id, entry.slots)];
    if (plan.buffers[id].frame >= 0 && made != entry.microBatch)
      return Status::invalid(
          "reads " + describeBuffer(id) + " of micro-batch " +
          std::to_string(entry.microBatch) + ", but its slot was given to " +
          "micro-batch " + std::to_string(made));
    return Status::success();
  }

  void write(int id, const ScheduleEntry &entry) {
    int root = rootPlace(id, entry.slots);
    for (int place : placed.overlaps(placed.placeOf(id, entry.slots)))
      if (int other = placed.rootOfPlace(place); other != root)
        written[other].clear();
    const Buffer &buffer = plan.buffers[id];
    if (buffer.frame >= 0 && writer[root] != entry.microBatch)
      written[root].clear();
    writer[root] = entry.microBatch;
    written[root].add(buffer.offset, buffer.offset + buffer.bytes);
  }

  std::string describeBuffer(int id) const {
    return "buffer " + std::to_string(id) + " \"" + plan.buffers[id].name + '"';
  }
  Status unordered(const QueueOrder::Conflict &conflict) const {
    return Status::invalid(
        "touches " + describeBuffer(conflict.buffer) + " while the " +
        std::string(nameOf(conflict.earlier->queue)) + " queue " +
        (conflict.earlierWrites ? "writes " : "reads ") +
        describeBuffer(conflict.earlierBuffer) + ": no event orders them");
  }

  const Plan &plan;
  const PlacedBuffers &placed;
  QueueOrder order;
  std::vector<Coverage> written; ///< by place of the root
  std::vector<int64_t> writer;   ///< micro-batch, by place of the root
};

Status checkPersistent(const Plan &plan, const PlacedBuffers &placed) {
  for (size_t place = 0; place < placed.size(); ++place) {
    const Buffer &buffer = plan.buffers[placed.bufferAt(place)];
    if (!isPersistent(buffer.kind))
      continue;
    for (int other : placed.overlaps(place))
      if (int id = placed.bufferAt(other);
          rootOf(plan, id) != rootOf(plan, buffer.id))
        return Status::invalid(
            "buffers[" + std::to_string(buffer.id) + "] \"" + buffer.name +
            "\": persists, but shares bytes with buffer " + std::to_string(id) +
            " \"" + plan.buffers[id].name + '"');
  }
  return Status::success();
}

/// What lies in different frames is taken to be apart.
Status checkFramesApart(const Plan &plan) {
  for (const Frame &a : plan.frames)
    for (const Frame &b : plan.frames)
      if (a.id < b.id && a.stage == b.stage &&
          a.offset < b.offset + b.bytes * b.count &&
          b.offset < a.offset + a.bytes * a.count)
        return Status::invalid("frames[" + std::to_string(b.id) +
                               "]: shares bytes with frame " +
                               std::to_string(a.id));
  return Status::success();
}

bool isStored(const Plan &plan, int output) {
  for (const auto &[phase, instructions] : plan.phases)
    for (const Instruction &instruction : instructions)
      if (auto *store = std::get_if<StoreOutputOp>(&instruction.op))
        if (store->output == output)
          return true;
  return false;
}

Status checkOutputs(const Plan &plan, int64_t stage, const Walk &walk) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &port = plan.outputs[i];
    const Buffer &buffer = plan.buffers[port.buffer];
    if (buffer.stage != stage || isStored(plan, static_cast<int>(i)))
      continue;
    std::string place =
        "outputs[" + std::to_string(i) + "] \"" + port.name + "\": ";
    if (port.layout.mentions(kMicroBatchAxis))
      return Status::invalid(place + "layout mentions mb, but no store_output "
                                     "takes it per micro-batch");
    if (buffer.frame >= 0)
      return Status::invalid(place + "buffer " + std::to_string(port.buffer) +
                             " is in a frame, but no store_output takes it");
    if (!walk.holds(port.buffer, {}))
      return Status::invalid(place + "buffer " + std::to_string(port.buffer) +
                             " does not hold it at the end of the step");
  }
  return Status::success();
}

Status checkStage(const Plan &plan, int64_t stage) {
  PlacedBuffers placed(plan, stage);
  DPC_TRY(checkPersistent(plan, placed));
  // Most plans have one schedule for all ranks: walk each distinct one once.
  std::vector<const std::vector<ScheduleEntry> *> done;
  for (size_t rank = 0; rank < plan.schedule.size(); ++rank) {
    const auto &schedule = plan.schedule[rank];
    if (plan.mesh.stageOf(rank) != stage ||
        std::any_of(done.begin(), done.end(),
                    [&](const auto *other) { return *other == schedule; }))
      continue;
    done.push_back(&schedule);
    Walk walk(plan, placed);
    DPC_TRY(walk.run(schedule));
    DPC_TRY(checkOutputs(plan, stage, walk));
  }
  return Status::success();
}

} // namespace

Status checkLiveness(const Plan &plan) {
  DPC_TRY(checkFramesApart(plan));
  for (int64_t stage = 0; stage < plan.mesh.stages(); ++stage)
    DPC_TRY(checkStage(plan, stage));
  return Status::success();
}

} // namespace dpc::rt
