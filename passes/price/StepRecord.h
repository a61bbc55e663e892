//===- StepRecord.h - The ops of a simulated step over time -----*- C++ -*-===//
//
// A record of the time simulation (StepEstimate.h). It contains the ops of each
// phase of each stage once, and an entry for each run of a phase. An op begins
// at entry.begin + op.begin in that run. The predicted seconds of the step are
// the end of the last entry plus the time of the host (tested).
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STEPRECORD_H
#define DPC_PASSES_PRICE_STEPRECORD_H

#include "passes/price/StepEstimate.h"

namespace dpc {

enum class StepQueue { compute, communication, copy };

/// One op of a phase; times are in seconds since the phase began.
struct RecordedOp {
  mlir::Operation *op = nullptr;
  StepQueue queue = StepQueue::compute;
  double begin = 0, end = 0;
  /// For communication: the size of its buffer, and the bytes that a rank sends
  /// on each level.
  double bytes = 0;
  std::vector<double> bytesPerLevel;
};

struct RecordedPhase {
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double seconds = 0;
  std::vector<RecordedOp> ops; ///< Sorted by start within each queue.
  /// When update begins and ends its wait for other stages.
  double waitBegin = 0, waitEnd = 0;
};

/// One run of a phase; times are in seconds since the step began.
struct RecordedEntry {
  size_t phase = 0; ///< An index of StageRecord::phases.
  int64_t microBatch = 0;
  double begin = 0;
};

struct StageRecord {
  std::vector<RecordedPhase> phases;
  std::vector<RecordedEntry> entries; ///< In execution order.

  /// The number of runs of each phase.
  std::vector<double> runs() const;
  /// The time at which the last entry ends.
  double end() const;
  /// Gives `entry` a copy of its phase that runs `times` times as fast.
  void makeFaster(RecordedEntry &entry, double times);
  /// Delays the update of this stage to that of `other`, which is later.
  void updateWith(const StageRecord &other);
};

struct StepRecord {
  std::vector<StageRecord> stages; ///< Of the slowest data-parallel rank.
  /// With uneven batch shares: the stages of each kind of data-parallel rank,
  /// and the kind of each rank. All ranks update when the slowest rank updates.
  std::vector<std::vector<StageRecord>> kinds;
  std::vector<size_t> kindOfDataRank;
  double seconds = 0;     ///< The time of the whole step.
  double hostSeconds = 0; ///< The part of `seconds` that the host needs.

  /// Delays the updates of all kinds to the update of `stages`.
  void meet();
};

/// Divides the log of one run of a step function into phases.
class PhaseLog {
public:
  explicit PhaseLog(StageRecord &stage) : stage(stage) {}
  /// Continues `phase` if it is the current phase, else begins it at `now`.
  /// Returns the list of its ops.
  std::vector<RecordedOp> &enter(Phase phase, double now);
  /// Ends the last phase at `end` and adds the entries. The phases of the loop
  /// run `microBatches` times, once every `period` seconds.
  void finish(double end, int64_t microBatches, double period);

private:
  StageRecord &stage;
  std::vector<double> begins; ///< The begin of each phase.
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPRECORD_H
