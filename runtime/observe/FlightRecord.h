//===- FlightRecord.h - what a rank did last --------------------*- C++ -*-===//
//
// A rank that was killed or stopped cannot say what it did. So each keeps a
// small file, mapped into its memory, whose bytes stay when the process goes: a
// line with the time of its last pulse, and one for each queue's last
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
  /// Makes FOLDER/rank-N anew, and the folder. SIGCONT is blocked in the
  /// calling thread from then on, and in those that it starts.
  static Expected<std::unique_ptr<FlightRecord>>
  open(const std::string &folder, const Plan &plan, int rank);
  /// A rank that ends by itself takes its record along.
  ~FlightRecord();
  FlightRecord(const FlightRecord &) = delete;
  FlightRecord &operator=(const FlightRecord &) = delete;

  void beginStep(int64_t step);
  /// Called by the thread of the instruction's queue. `place` says where in
  /// the step it is: "" or "s1.forward of micro-batch 2, ".
  void begin(const Instruction &instruction, int64_t step,
             std::string_view place);
  void end(const Instruction &instruction);
  /// The rank fails by itself: it says why, and is not lost.
  void fail();

private:
  explicit FlightRecord(std::string path) : path(std::move(path)) {}
  void describe(const Plan &plan, int rank);
  char *line(int index) const;
  void pulse();

  std::string path;
  char *bytes = nullptr; ///< the file's
  uint64_t inode = 0;    ///< the file's
  struct Text {
    bool waits = false; ///< for other ranks
    std::string text;
  };
  std::unordered_map<const Instruction *, Text> texts;
  std::mutex mutex;
  std::condition_variable stops;
  bool stopping = false;
  std::thread pulses; ///< last: it uses the others
};

/// A line for every rank with a record in `folder`, of those that did not
/// fail(), whose pulse ended before that of others: "rank 2 was last in step
/// 12, grad.w1.all_reduce (group dp ranks=0,2)". Where all ended together, for
/// those that did not wait for others, or else for all. At most kMostRanks
/// lines, of the lowest ranks.
std::vector<std::string> lastInstructions(const std::string &folder);
inline constexpr size_t kMostRanks = 4;

/// Removes what ranks left there, so that a later start's are told alone.
void removeRecords(const std::string &folder);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_FLIGHTRECORD_H
