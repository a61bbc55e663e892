//===- QueueOrder.h - guaranteed order of memory accesses -------*- C++ -*-===//
//
// The queues of a rank share memory. If two instructions access the same bytes
// and one of them writes, they must be in the same queue, or events must order
// them. Codegen adds these events, and the validator checks them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include <array>
#include <functional>
#include <unordered_map>
#include <vector>

namespace dpc::rt {

/// Where the buffers of a stage are in memory. A buffer in a frame has one
/// place for each slot.
class PlacedBuffers {
public:
  PlacedBuffers(const Plan &plan, int64_t stage);

  size_t size() const { return places.size(); }
  /// Returns a buffer's place in a schedule entry with these slots, or -1.
  int placeOf(int buffer, const std::vector<FrameSlot> &slots) const;
  int bufferAt(int place) const { return places[place].buffer; }
  /// Returns the place of the viewed buffer if a view is at `place`, otherwise
  /// returns `place`.
  int rootOfPlace(int place) const;
  /// Returns the places that share bytes with `place`, including `place`.
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

/// Visits the instructions of one rank in the order of its schedule. The vector
/// clock of an instruction counts, for each queue, the instructions that have
/// certainly ended before it.
class QueueOrder {
public:
  /// An earlier access by another queue that is not ordered before the access
  /// to `buffer`.
  struct Conflict {
    const Instruction *earlier; ///< its latest execution makes the access
    int buffer, earlierBuffer;
    bool earlierWrites;
  };
  /// Makes the current instruction wait for `earlier`, or returns false.
  using Resolve = std::function<bool(const Conflict &)>;

  explicit QueueOrder(const PlacedBuffers &placed)
      : placed(placed), last(placed.size()) {}

  /// Visits an instruction. Returns false if `resolve` does.
  bool step(const Instruction &instruction, const Accesses &accesses,
            const std::vector<FrameSlot> &slots, const Resolve &resolve);

private:
  using Clock = std::array<int64_t, kNumQueues>;
  /// The positions (1-based) of the latest accesses to a place in each queue.
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
