//===- StepRecord.h - The ops of a simulated step over time -----*- C++ -*-===//
// The record of a simulated step (StepEstimate.h). It contains the ops of each
// phase of each stage once, and an entry for each run of a phase. In such a
// run, an op begins at entry.begin + op.begin. The predicted seconds of the
// step are the end of the last entry plus the seconds of the host (tested).
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/price/StepEstimate.h"

namespace dpc {

enum class StepQueue { compute, communication, copy };

/// Times are in seconds since the begin of the phase.
struct RecordedOp {
  mlir::Operation *op = nullptr;
  StepQueue queue = StepQueue::compute;
  double begin = 0, end = 0;
  /// For communication, the size of the buffer, and the bytes that a rank sends
  /// by level of the cluster.
  double bytes = 0;
  std::vector<double> bytesPerLevel;
  /// The share of the time in which bytes move; less than 1 if an exchange of
  /// rows alternates with computation.
  double movesShare = 1;
};

struct RecordedPhase {
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double seconds = 0;
  std::vector<RecordedOp> ops; ///< Sorted by begin within each queue.
  /// For update, when the wait for other stages begins and ends.
  double waitBegin = 0, waitEnd = 0;
};

/// One run of a phase. `begin` is in seconds since the begin of the step.
struct RecordedEntry {
  size_t phase = 0; ///< An index of StageRecord::phases.
  int64_t microBatch = 0;
  double begin = 0;
};

struct StageRecord {
  std::vector<RecordedPhase> phases;
  std::vector<RecordedEntry> entries;

  /// Returns how often each phase runs.
  std::vector<double> runs() const;
  /// Returns the end of the last entry.
  double end() const;
  /// Assigns `entry` a copy of its phase that is `times` times as fast.
  void makeFaster(RecordedEntry &entry, double times);
  /// Replaces the update of this stage by the later update of `other`.
  void updateWith(const StageRecord &other);
};

struct StepRecord {
  std::vector<StageRecord> stages; ///< Of the slowest data-parallel rank.
  /// With uneven batch shares, the stages of each kind of data-parallel rank,
  /// and the kind of each rank. All ranks update when the slowest rank updates.
  std::vector<std::vector<StageRecord>> kinds;
  std::vector<size_t> kindOfDataRank;
  double seconds = 0;
  double hostSeconds = 0;

  /// Delays the update of each stage in `kinds` to the update of the same stage
  /// in `stages`.
  void meet();
};

/// Divides the recorded ops of a step function into phases.
class PhaseLog {
public:
  explicit PhaseLog(StageRecord &stage) : stage(stage) {}
  /// Begins `phase` at `now` unless it has begun. Returns the ops of the phase.
  std::vector<RecordedOp> &enter(Phase phase, double now);
  /// Ends the last phase at `end` and adds the entries. Phases of the loop get
  /// `microBatches` entries, one every `period` seconds.
  void finish(double end, int64_t microBatches, double period);

private:
  StageRecord &stage;
  std::vector<double> begins;
};

} // namespace dpc
