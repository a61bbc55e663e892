#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace dpc::rt {

namespace {

constexpr int kQueues = 2;

/// For every buffer, the buffers whose bytes meet its own (itself included).
std::vector<std::vector<int>> overlapsOf(const Plan &plan) {
  std::vector<int> order;
  for (const Buffer &buffer : plan.buffers)
    if (buffer.bytes > 0)
      order.push_back(buffer.id);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return plan.buffers[a].offset < plan.buffers[b].offset;
  });
  std::vector<std::vector<int>> overlaps(plan.buffers.size());
  std::vector<int> open; // those that reach past the current offset
  for (int id : order) {
    const Buffer &buffer = plan.buffers[id];
    std::erase_if(open, [&](int other) {
      const Buffer &o = plan.buffers[other];
      return o.offset + o.bytes <= buffer.offset;
    });
    for (int other : open) {
      overlaps[id].push_back(other);
      overlaps[other].push_back(id);
    }
    overlaps[id].push_back(id);
    open.push_back(id);
  }
  return overlaps;
}

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

/// Walks one rank's schedule in order, as if it had a single queue, and keeps
/// for each run of an instruction which runs of the other queue surely ended
/// before it (a vector clock with one entry per queue).
class Walk {
public:
  Walk(const Plan &plan, const std::vector<std::vector<int>> &overlaps)
      : plan(plan), overlaps(overlaps), written(plan.buffers.size()),
        last(plan.buffers.size()) {
    for (const Buffer &buffer : plan.buffers)
      if (isPersistent(buffer.kind))
        written[rootOf(plan, buffer.id)].add(buffer.offset,
                                             buffer.offset + buffer.bytes);
  }

  Status run(const std::vector<ScheduleEntry> &schedule) {
    for (const ScheduleEntry &entry : schedule) {
      const auto &instructions = plan.phases.at(entry.phase);
      for (size_t i = 0; i < instructions.size(); ++i)
        if (Status status = step(instructions[i]); !status.ok())
          return Status(status.code(), placeOf(plan, entry.phase, i) + ": " +
                                           status.message());
    }
    return Status::success();
  }

  /// At the step's end: whether the buffer's bytes hold its value.
  bool holds(int id) const {
    const Buffer &buffer = plan.buffers[id];
    return buffer.bytes == 0 ||
           written[rootOf(plan, id)].contains(buffer.offset,
                                              buffer.offset + buffer.bytes);
  }

private:
  using Clock = std::array<int64_t, kQueues>;
  /// Positions (1-based) of the latest accesses by each queue.
  struct LastAccess {
    Clock reads{}, writes{};
  };

  Status step(const Instruction &instruction) {
    int queue = static_cast<int>(instruction.queue);
    Clock &clock = clocks[queue];
    for (int event : instruction.waits)
      if (auto it = signalled.find(event); it != signalled.end())
        for (int q = 0; q < kQueues; ++q)
          clock[q] = std::max(clock[q], it->second[q]);
    ++clock[queue];
    Accesses accesses = accessesOf(instruction, plan);
    for (int id : accesses.reads)
      DPC_TRY(read(id, queue));
    for (int id : accesses.writes)
      DPC_TRY(write(id, queue));
    if (instruction.signals >= 0)
      signalled[instruction.signals] = clock;
    return Status::success();
  }

  Status read(int id, int queue) {
    if (!holds(id))
      return Status::invalid("reads " + describeBuffer(id) +
                             ", which is not written before or whose bytes "
                             "another buffer took");
    int other = 1 - queue;
    for (int o : overlaps[id])
      if (last[o].writes[other] > clocks[queue][other])
        return unordered(id, o, "writes");
    last[id].reads[queue] = clocks[queue][queue];
    return Status::success();
  }

  Status write(int id, int queue) {
    int other = 1 - queue, root = rootOf(plan, id);
    for (int o : overlaps[id]) {
      if (last[o].writes[other] > clocks[queue][other])
        return unordered(id, o, "writes");
      if (last[o].reads[other] > clocks[queue][other])
        return unordered(id, o, "reads");
      if (rootOf(plan, o) != root)
        written[rootOf(plan, o)].clear();
    }
    const Buffer &buffer = plan.buffers[id];
    written[root].add(buffer.offset, buffer.offset + buffer.bytes);
    last[id].writes[queue] = clocks[queue][queue];
    return Status::success();
  }

  std::string describeBuffer(int id) const {
    return "buffer " + std::to_string(id) + " \"" + plan.buffers[id].name + '"';
  }
  Status unordered(int id, int other, const std::string &verb) const {
    return Status::invalid("touches " + describeBuffer(id) +
                           " while the other queue " + verb + ' ' +
                           describeBuffer(other) + ": no event orders them");
  }

  const Plan &plan;
  const std::vector<std::vector<int>> &overlaps;
  std::vector<Coverage> written; ///< by root
  std::vector<LastAccess> last;  ///< by buffer
  std::array<Clock, kQueues> clocks{};
  std::map<int, Clock> signalled;
};

Status checkPersistent(const Plan &plan,
                       const std::vector<std::vector<int>> &overlaps) {
  for (const Buffer &buffer : plan.buffers)
    if (isPersistent(buffer.kind))
      for (int other : overlaps[buffer.id])
        if (rootOf(plan, other) != rootOf(plan, buffer.id))
          return Status::invalid(
              "buffers[" + std::to_string(buffer.id) + "] \"" + buffer.name +
              "\": persists, but shares bytes with buffer " +
              std::to_string(other) + " \"" + plan.buffers[other].name + '"');
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

Status checkOutputs(const Plan &plan, const Walk &walk) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (isStored(plan, static_cast<int>(i)))
      continue;
    const Port &port = plan.outputs[i];
    std::string place =
        "outputs[" + std::to_string(i) + "] \"" + port.name + "\": ";
    if (port.layout.mentions(kMicroBatchAxis))
      return Status::invalid(place + "layout mentions mb, but no store_output "
                                     "takes it per micro-batch");
    if (!walk.holds(port.buffer))
      return Status::invalid(place + "buffer " + std::to_string(port.buffer) +
                             " does not hold it at the end of the step");
  }
  return Status::success();
}

} // namespace

Status checkLiveness(const Plan &plan) {
  std::vector<std::vector<int>> overlaps = overlapsOf(plan);
  DPC_TRY(checkPersistent(plan, overlaps));
  // Most plans have one schedule for all ranks: walk each distinct one once.
  std::set<std::vector<std::pair<std::string, int64_t>>> done;
  for (const auto &schedule : plan.schedule) {
    std::vector<std::pair<std::string, int64_t>> key;
    key.reserve(schedule.size());
    for (const ScheduleEntry &entry : schedule)
      key.emplace_back(entry.phase, entry.microBatch);
    if (!done.insert(key).second)
      continue;
    Walk walk(plan, overlaps);
    DPC_TRY(walk.run(schedule));
    DPC_TRY(checkOutputs(plan, walk));
  }
  return Status::success();
}

} // namespace dpc::rt
