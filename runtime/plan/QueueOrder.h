//===- QueueOrder.h - guaranteed order of memory accesses -------*- C++ -*-===//
//
// The queues of a rank share its memory. If two instructions access the same
// bytes, and at least one of them writes, a queue or events must order them.
// Codegen adds the missing events, and the validator checks that none is
// missing.
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

/// The places in memory of the buffers of one stage. A buffer of a frame has
/// one place for each slot.
class PlacedBuffers {
public:
  PlacedBuffers(const Plan &plan, int64_t stage);

  size_t size() const { return places.size(); }
  /// The place of a buffer in a schedule entry with these slots.
  int placeOf(int buffer, const std::vector<FrameSlot> &slots) const;
  int bufferAt(int place) const { return places[place].buffer; }
  /// The place of the buffer that the buffer at `place` is a view of, or
  /// `place` itself.
  int rootOfPlace(int place) const;
  /// The places that share bytes with `place`, including `place`.
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

/// Visits the schedule of one rank in order. For each run of an instruction, a
/// vector clock counts how many runs in each queue have certainly ended before
/// that run.
class QueueOrder {
public:
  /// An earlier access by another queue that no queue or event orders before
  /// the access to `buffer`.
  struct Conflict {
    const Instruction *earlier; ///< its latest run is the conflicting access
    int buffer, earlierBuffer;
    bool earlierWrites;
  };
  /// Makes the instruction wait for `earlier`. Returns false if the conflict
  /// remains.
  using Resolve = std::function<bool(const Conflict &)>;

  explicit QueueOrder(const PlacedBuffers &placed)
      : placed(placed), last(placed.size()) {}

  /// Visits the next run. Returns false if a conflict is not resolved.
  bool step(const Instruction &instruction, const Accesses &accesses,
            const std::vector<FrameSlot> &slots, const Resolve &resolve);

private:
  using Clock = std::array<int64_t, kNumQueues>;
  /// For each queue, the positions (1-based) of its latest accesses.
  struct LastAccess {
    Clock reads{}, writes{};
  };
  /// The latest conflicting access by another queue.
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
