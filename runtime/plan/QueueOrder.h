//===- QueueOrder.h - guaranteed order of memory accesses -------*- C++ -*-===//
//
// A rank runs several queues over its memory. Two accesses to the same bytes,
// at least one of them a write, must be ordered: by one queue, or by events.
// Codegen walks the schedule to add missing events; the validator walks it to
// check that none is missing.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_QUEUEORDER_H
#define DPC_RUNTIME_PLAN_QUEUEORDER_H

#include "runtime/plan/Plan.h"

#include <array>
#include <functional>
#include <unordered_map>
#include <vector>

namespace dpc::rt {

/// The buffers of one stage at their addresses. A buffer of a frame has one
/// place for every slot.
class PlacedBuffers {
public:
  PlacedBuffers(const Plan &plan, int64_t stage);

  size_t size() const { return places.size(); }
  /// The place of a buffer in a schedule entry with these slots.
  int placeOf(int buffer, const std::vector<FrameSlot> &slots) const;
  int bufferAt(int place) const { return places[place].buffer; }
  /// The place of the buffer that the buffer at `place` is a view of; `place`
  /// itself if it is not a view.
  int rootOfPlace(int place) const;
  /// The places that share bytes with `place`, itself included.
  const std::vector<int> &overlaps(int place) const { return meets[place]; }

private:
  struct Place {
    int buffer;
    Space space;
    int64_t begin, end;
  };
  void findOverlaps();

  const Plan &plan;
  std::vector<Place> places;
  std::vector<int> firstPlace; ///< by buffer
  std::vector<std::vector<int>> meets;
};

/// Runs the schedule of one rank in order, as if it had a single queue. For
/// each run of an instruction, keeps which runs of the other queues have
/// certainly ended before it (a vector clock with one entry per queue).
class QueueOrder {
public:
  /// An access of another queue that is not ordered before the access to
  /// `buffer`.
  struct Conflict {
    const Instruction *earlier; ///< its latest run conflicts
    int buffer, earlierBuffer;
    bool earlierWrites;
  };
  /// Makes the instruction wait for `earlier`; returns true if it does so.
  using Resolve = std::function<bool(const Conflict &)>;

  explicit QueueOrder(const PlacedBuffers &placed)
      : placed(placed), last(placed.size()) {}

  /// Processes the next run. False when a conflict is not resolved.
  bool step(const Instruction &instruction, const Accesses &accesses,
            const std::vector<FrameSlot> &slots, const Resolve &resolve);

private:
  using Clock = std::array<int64_t, kNumQueues>;
  /// Positions (1-based) of the latest accesses by each queue.
  struct LastAccess {
    Clock reads{}, writes{};
  };
  /// The latest conflicting access of another queue.
  struct Latest {
    int64_t position = 0;
    int buffer = -1, earlierBuffer = -1;
    bool earlierWrites = false;
  };

  Latest latestConflict(const Accesses &accesses,
                        const std::vector<FrameSlot> &slots, int other) const;
  static void merge(Clock &clock, const Clock &ended);

  const PlacedBuffers &placed;
  std::vector<LastAccess> last; ///< by place
  std::array<Clock, kNumQueues> clocks{};
  std::array<std::vector<const Instruction *>, kNumQueues> runs;
  std::unordered_map<const Instruction *, Clock> lastRun;
  std::unordered_map<int, Clock> signalled; ///< by event
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_QUEUEORDER_H
