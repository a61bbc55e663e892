//===- FlightRecord.h - the last instructions of a rank ---------*- C++ -*-===//
//
// A rank that is killed or stopped cannot report its last instructions. Each
// rank therefore records them in a small mapped file, which outlives the
// process. The first line has the time of the last pulse, which a thread
// renews; the other lines have the last instruction of each queue:
//
//   pulse 1763860000125000 step 12
//   runs  1763860000121300 step 12, blocks.0.gelu
//   waits 1763860000120700 step 12, grad.w1.all_reduce (group dp ranks=0,2)
//   ended 1763860000110400 step 12, offload.m1
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace dpc::rt {

class FlightRecord {
public:
  /// Creates the file FOLDER/rank-N. Blocks SIGCONT in the calling thread and
  /// in threads that this thread starts later.
  static Expected<std::unique_ptr<FlightRecord>>
  open(const std::string &folder, const Plan &plan, int rank);
  /// Removes the file, because the rank has ended normally.
  ~FlightRecord();
  FlightRecord(const FlightRecord &) = delete;
  FlightRecord &operator=(const FlightRecord &) = delete;

  void beginStep(int64_t step);
  /// Called by the thread of the queue of the instruction. `place` is a place
  /// in the step, such as "s1.forward of micro-batch 2, ", or "".
  void begin(const Instruction &instruction, int64_t step,
             std::string_view place);
  void end(const Instruction &instruction);
  /// Called when the rank reports a failure, so that it does not count as lost.
  void fail();

private:
  explicit FlightRecord(std::string path) : path(std::move(path)) {}
  void describe(const Plan &plan, int rank);
  char *line(int index) const;
  void pulse();

  std::string path;
  char *bytes = nullptr;
  uint64_t inode = 0;
  struct Text {
    bool waits = false; ///< for other ranks
    std::string text;
  };
  std::unordered_map<const Instruction *, Text> texts;
  std::mutex mutex;
  std::condition_variable stops;
  bool stopping = false;
  std::thread pulses; ///< last: the thread uses the other members
};

/// Describes the lost ranks by the records in `folder`: "rank 2 was last in
/// step 12, grad.w1.all_reduce (group dp ranks=0,2)". A rank is lost if its
/// pulse ended before the pulses of other ranks. If all pulses ended together,
/// the ranks that were not waiting for other ranks are lost, or all ranks if
/// every rank was waiting. A rank that called fail() is never lost. Returns at
/// most kMostRanks lines, for the lowest ranks.
std::vector<std::string> lastInstructions(const std::string &folder);
inline constexpr size_t kMostRanks = 4;

void removeRecords(const std::string &folder);

} // namespace dpc::rt
