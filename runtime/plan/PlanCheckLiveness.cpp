#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/QueueOrder.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>

namespace dpc::rt {

namespace {

/// The byte ranges of a buffer that contain its value, with the micro-batch
/// that wrote each range, and whether the loop has read it since.
class Coverage {
public:
  void clear() { pieces.clear(); }
  void add(int64_t begin, int64_t end, int64_t writer) {
    if (begin == end)
      return;
    cutAt(begin);
    cutAt(end);
    pieces.erase(pieces.lower_bound(begin), pieces.lower_bound(end));
    pieces[begin] = {end, writer, false};
  }
  void markRead(int64_t begin, int64_t end) {
    cutAt(begin);
    cutAt(end);
    for (auto it = pieces.lower_bound(begin);
         it != pieces.end() && it->first < end; ++it)
      it->second.isRead = true;
  }
  bool isRead(int64_t begin, int64_t end) const {
    for (auto it = pieceAt(begin); it != pieces.end() && it->first < end; ++it)
      if (it->second.isRead)
        return true;
    return false;
  }
  bool contains(int64_t begin, int64_t end) const {
    for (auto it = pieceAt(begin); begin < end; ++it) {
      if (it == pieces.end() || it->first > begin)
        return false;
      begin = it->second.end;
    }
    return true;
  }
  /// Returns a micro-batch that wrote in the range and is not in `known`.
  std::optional<int64_t>
  otherWriter(int64_t begin, int64_t end,
              std::initializer_list<int64_t> known) const {
    for (auto it = pieceAt(begin); it != pieces.end() && it->first < end; ++it)
      if (std::find(known.begin(), known.end(), it->second.writer) ==
          known.end())
        return it->second.writer;
    return std::nullopt;
  }

private:
  struct Piece {
    int64_t end, writer;
    bool isRead;
  };
  using Pieces = std::map<int64_t, Piece>; // by begin

  /// Returns the range that contains `offset`, or else the next range.
  Pieces::const_iterator pieceAt(int64_t offset) const {
    auto it = pieces.upper_bound(offset);
    if (it != pieces.begin() && std::prev(it)->second.end > offset)
      --it;
    return it;
  }
  void cutAt(int64_t offset) {
    auto it = pieces.lower_bound(offset);
    if (it == pieces.begin())
      return;
    --it;
    if (it->second.end <= offset)
      return;
    pieces[offset] = it->second;
    it->second.end = offset;
  }

  Pieces pieces;
};

/// Used instead of a micro-batch for values that are written before the step,
/// in setup or in update.
constexpr int64_t kNoMicroBatch = -1;
/// Used for a value that began before the loop and that the loop adds to.
constexpr int64_t kSum = -2;

/// Simulates the schedule of one rank in order.
class Walk {
public:
  Walk(const Plan &plan, const PlacedBuffers &placed)
      : plan(plan), placed(placed), order(placed), written(placed.size()) {
    for (size_t place = 0; place < placed.size(); ++place) {
      const Buffer &buffer = plan.buffers[placed.bufferAt(place)];
      if (isPersistent(buffer.kind)) // never in a frame
        written[rootPlace(buffer.id, {})].add(
            buffer.offset, buffer.offset + buffer.bytes, kNoMicroBatch);
    }
  }

  Status run(const std::vector<ScheduleEntry> &schedule) {
    for (const ScheduleEntry &entry : schedule) {
      const auto &instructions = plan.phases.at(entry.phase);
      PhaseKind kind = PhaseName::parse(entry.phase, plan.mesh)->kind;
      isLoop = kind != PhaseKind::Setup && kind != PhaseKind::Update;
      for (size_t i = 0; i < instructions.size(); ++i)
        if (Status status = step(instructions[i], entry); !status.ok())
          return status.in(placeOf(plan, entry.phase, i));
    }
    return Status::success();
  }

  /// Returns whether all bytes of the buffer contain its value.
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
      DPC_TRY(read(id, entry, accesses));
    Status status;
    order.step(instruction, accesses, entry.slots,
               [&](const QueueOrder::Conflict &conflict) {
                 status = unordered(conflict);
                 return false;
               });
    std::vector<int> sums;
    for (int id : accesses.writes)
      if (isSum(id, entry, accesses))
        sums.push_back(id);
    for (int id : sums)
      if (const Buffer &sum = plan.buffers[id];
          written[rootPlace(id, entry.slots)].isRead(sum.offset,
                                                     sum.offset + sum.bytes))
        return Status::invalid("adds to ", describeBuffer(id),
                               " after the loop over micro-batches has read "
                               "the sum");
    for (int id : accesses.writes)
      write(id, entry, std::find(sums.begin(), sums.end(), id) != sums.end());
    return status;
  }

  Status read(int id, const ScheduleEntry &entry, const Accesses &accesses) {
    if (!holds(id, entry.slots))
      return Status::invalid("reads ", describeBuffer(id),
                             ", which was not written before or whose bytes "
                             "another buffer has overwritten");
    const Buffer &buffer = plan.buffers[id];
    bool inFrame = buffer.frame >= 0;
    // Outside frames, an accumulation may continue another micro-batch's sum.
    if (!inFrame && (!isLoop || isPersistent(buffer.kind) ||
                     isWrittenToo(buffer, accesses)))
      return Status::success();
    Coverage &coverage = written[rootPlace(id, entry.slots)];
    int64_t end = buffer.offset + buffer.bytes;
    auto other =
        inFrame ? coverage.otherWriter(buffer.offset, end, {entry.microBatch})
                : coverage.otherWriter(buffer.offset, end,
                                       {entry.microBatch, kNoMicroBatch, kSum});
    if (!other) {
      coverage.markRead(buffer.offset, end);
      return Status::success();
    }
    std::string whose =
        *other == kNoMicroBatch ? "none" : std::to_string(*other);
    return Status::invalid("reads ", describeBuffer(id), " of micro-batch ",
                           entry.microBatch, ", but ",
                           (inFrame
                                ? "its slot was given to micro-batch " + whose
                                : "micro-batch " + whose + " wrote it since"));
  }

  /// Returns whether the instruction also overwrites all of `buffer`.
  bool isWrittenToo(const Buffer &buffer, const Accesses &accesses) const {
    return std::any_of(
        accesses.writes.begin(), accesses.writes.end(), [&](int id) {
          const Buffer &out = plan.buffers[id];
          return rootOf(plan, id) == rootOf(plan, buffer.id) &&
                 out.offset <= buffer.offset &&
                 buffer.offset + buffer.bytes <= out.offset + out.bytes;
        });
  }

  /// Returns whether the instruction adds to a value that began before the
  /// loop. No later micro-batch may add to it once the loop has read it.
  bool isSum(int id, const ScheduleEntry &entry, const Accesses &accesses) {
    const Buffer &buffer = plan.buffers[id];
    bool isReadToo =
        std::any_of(accesses.reads.begin(), accesses.reads.end(), [&](int in) {
          return rootOf(plan, in) == rootOf(plan, id);
        });
    return isLoop && buffer.frame < 0 && isReadToo &&
           !written[rootPlace(id, entry.slots)].otherWriter(
               buffer.offset, buffer.offset + buffer.bytes,
               {kNoMicroBatch, kSum});
  }

  void write(int id, const ScheduleEntry &entry, bool isSum) {
    int root = rootPlace(id, entry.slots);
    for (int place : placed.overlaps(placed.placeOf(id, entry.slots)))
      if (int other = placed.rootOfPlace(place); other != root)
        written[other].clear();
    const Buffer &buffer = plan.buffers[id];
    written[root].add(buffer.offset, buffer.offset + buffer.bytes,
                      isSum    ? kSum
                      : isLoop ? entry.microBatch
                               : kNoMicroBatch);
  }

  std::string describeBuffer(int id) const {
    return "buffer " + std::to_string(id) + " \"" + plan.buffers[id].name + '"';
  }
  Status unordered(const QueueOrder::Conflict &conflict) const {
    return Status::invalid(
        "touches ", describeBuffer(conflict.buffer), " while the ",
        nameOf(conflict.earlier->queue), " queue ",
        (conflict.earlierWrites ? "writes " : "reads "),
        describeBuffer(conflict.earlierBuffer), ": no event orders them");
  }

  const Plan &plan;
  const PlacedBuffers &placed;
  QueueOrder order;
  bool isLoop = false;           ///< not in setup or update
  std::vector<Coverage> written; ///< by index in `placed` of the viewed buffer
};

Status checkPersistent(const Plan &plan, const PlacedBuffers &placed) {
  for (size_t place = 0; place < placed.size(); ++place) {
    const Buffer &buffer = plan.buffers[placed.bufferAt(place)];
    if (!isPersistent(buffer.kind))
      continue;
    for (int other : placed.overlaps(place))
      if (int id = placed.bufferAt(other);
          rootOf(plan, id) != rootOf(plan, buffer.id))
        return Status::invalid("buffers[", buffer.id, "] \"", buffer.name,
                               "\": persists, but shares bytes with buffer ",
                               id, " \"", plan.buffers[id].name, '"');
  }
  return Status::success();
}

/// mayOverlap() relies on disjoint frames.
Status checkFramesApart(const Plan &plan) {
  for (const Frame &a : plan.frames)
    for (const Frame &b : plan.frames)
      if (a.id < b.id && a.stage == b.stage &&
          a.offset < b.offset + b.bytes * b.count &&
          b.offset < a.offset + a.bytes * a.count)
        return Status::invalid("frames[", b.id, "]: shares bytes with frame ",
                               a.id);
  return Status::success();
}

bool isStored(const Plan &plan, int output) {
  return std::ranges::any_of(
      opsOf<StoreOutputOp>(plan),
      [&](const StoreOutputOp *op) { return op->output == output; });
}

Status checkOutputs(const Plan &plan, int64_t stage, const Walk &walk) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &port = plan.outputs[i];
    const Buffer &buffer = plan.buffers[port.buffer];
    if (buffer.stage != stage || isStored(plan, static_cast<int>(i)))
      continue;
    std::string place = concat("outputs[", i, "] \"", port.name, "\": ");
    if (port.layout.mentions(kMicroBatchAxis))
      return Status::invalid(place, "layout mentions mb, but no store_output "
                                    "takes it per micro-batch");
    if (buffer.frame >= 0)
      return Status::invalid(place, "buffer ", port.buffer,
                             " is in a frame, but no store_output takes it");
    if (!walk.holds(port.buffer, {}))
      return Status::invalid(
          place, "buffer ", port.buffer,
          " does not hold the output at the end of the step");
  }
  return Status::success();
}

Status checkStage(const Plan &plan, int64_t stage,
                  const std::vector<int> &firstWithSchedule) {
  PlacedBuffers placed(plan, stage);
  DPC_TRY(checkPersistent(plan, placed));
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    if (firstWithSchedule[rank] != rank || plan.mesh.stageOf(rank) != stage)
      continue;
    Walk walk(plan, placed);
    DPC_TRY(walk.run(plan.schedule[rank]));
    DPC_TRY(checkOutputs(plan, stage, walk));
  }
  return Status::success();
}

} // namespace

Status checkLiveness(const Plan &plan) {
  DPC_TRY(checkFramesApart(plan));
  std::vector<int> first = firstWithSchedule(plan);
  for (int64_t stage = 0; stage < plan.mesh.stages(); ++stage)
    DPC_TRY(checkStage(plan, stage, first));
  return Status::success();
}

} // namespace dpc::rt
