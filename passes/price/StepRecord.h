//===- StepRecord.h - The ops of a simulated step over time -----*- C++ -*-===//
//
// A record of the simulation of time (StepEstimate.h). It contains the ops of
// each phase of each stage once, and an entry for each run of a phase. In this
// run an op begins at entry.begin + op.begin. The predicted seconds are the
// last end plus the time of the host (tested).
//
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
  /// by level.
  double bytes = 0;
  std::vector<double> bytesPerLevel;
};

struct RecordedPhase {
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double seconds = 0;
  std::vector<RecordedOp> ops; ///< In the order of each queue.
  /// When update begins and ends to wait for other stages.
  double waitBegin = 0, waitEnd = 0;
};

/// One run of a phase; times are in seconds since the step began.
struct RecordedEntry {
  size_t phase = 0; ///< Index in StageRecord::phases.
  int64_t microBatch = 0;
  double begin = 0;
};

struct StageRecord {
  std::vector<RecordedPhase> phases;
  std::vector<RecordedEntry> entries; ///< In execution order.

  /// How often each phase runs.
  std::vector<double> runs() const;
  /// When the last entry ends.
  double end() const;
  /// Gives `entry` a copy of its phase that is `times` times as fast.
  void makeFaster(RecordedEntry &entry, double times);
  /// Makes this stage update at the time of `other`, which is later.
  void updateWith(const StageRecord &other);
};

struct StepRecord {
  std::vector<StageRecord> stages; ///< Of the slowest data-parallel rank.
  /// If data-parallel ranks have uneven batch shares: the stages of each kind
  /// of rank, and the kind of each rank. All ranks update when the slowest one
  /// does.
  std::vector<std::vector<StageRecord>> kinds;
  std::vector<size_t> kindOfDataRank;
  double seconds = 0;     ///< All of the step.
  double hostSeconds = 0; ///< The part of `seconds` that the host takes.

  /// Makes all kinds update at the time of `stages`.
  void meet();
};

/// Divides the log of one run of a step function into phases.
class PhaseLog {
public:
  explicit PhaseLog(StageRecord &stage) : stage(stage) {}
  /// Continues `phase`, or begins it at `now`. Returns its list of ops.
  std::vector<RecordedOp> &enter(Phase phase, double now);
  /// Ends the last phase at `end` and adds the entries: the phases of the loop
  /// run `microBatches` times, every `period` seconds.
  void finish(double end, int64_t microBatches, double period);

private:
  StageRecord &stage;
  std::vector<double> begins; ///< By phase.
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPRECORD_H
