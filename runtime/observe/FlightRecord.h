//===- FlightRecord.h - the last instructions of a rank ---------*- C++ -*-===//
//
// A rank that was killed or stopped cannot report what it did. Therefore each
// rank keeps a small file, mapped into its memory, that survives the process:
// one line with the time of its last pulse, and one line for each queue's last
// instruction.
//
//   pulse 1763860000125000 step 12
//   runs  1763860000121300 step 12, blocks.0.gelu
//   waits 1763860000120700 step 12, grad.w1.all_reduce (group dp ranks=0,2)
//   ended 1763860000110400 step 12, offload.m1
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_OBSERVE_FLIGHTRECORD_H
#define DPC_RUNTIME_OBSERVE_FLIGHTRECORD_H

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
  /// Creates FOLDER/rank-N, and the folder. From then on SIGCONT is blocked in
  /// the calling thread and in the threads that it starts.
  static Expected<std::unique_ptr<FlightRecord>>
  open(const std::string &folder, const Plan &plan, int rank);
  /// Removes the record: a rank that ends normally leaves none.
  ~FlightRecord();
  FlightRecord(const FlightRecord &) = delete;
  FlightRecord &operator=(const FlightRecord &) = delete;

  void beginStep(int64_t step);
  /// Called by the thread of the instruction's queue. `place` is the place in
  /// the step: "" or "s1.forward of micro-batch 2, ".
  void begin(const Instruction &instruction, int64_t step,
             std::string_view place);
  void end(const Instruction &instruction);
  /// Marks the record of a rank that fails with a message of its own, and so is
  /// not lost.
  void fail();

private:
  explicit FlightRecord(std::string path) : path(std::move(path)) {}
  void describe(const Plan &plan, int rank);
  char *line(int index) const;
  void pulse();

  std::string path;
  char *bytes = nullptr; ///< the mapped file
  uint64_t inode = 0;    ///< the file's
  struct Text {
    bool waits = false; ///< for other ranks
    std::string text;
  };
  std::unordered_map<const Instruction *, Text> texts;
  std::mutex mutex;
  std::condition_variable stops;
  bool stopping = false;
  std::thread pulses; ///< last: it uses the other members
};

/// A line for every rank with a record in `folder` that did not fail() and
/// whose pulse ended before the pulse of other ranks: "rank 2 was last in step
/// 12, grad.w1.all_reduce (group dp ranks=0,2)". If all pulses ended together,
/// lines for the ranks that did not wait for other ranks, or else for all
/// ranks. At most kMostRanks lines, for the lowest ranks.
std::vector<std::string> lastInstructions(const std::string &folder);
inline constexpr size_t kMostRanks = 4;

/// Removes the records, so that the records of a later start are separate.
void removeRecords(const std::string &folder);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_FLIGHTRECORD_H
