//===- StepRecord.h - What ran when in a simulated step ---------*- C++ -*-===//
//
// The estimate of time (StepEstimate.h) hands out what it simulated: the ops of
// every phase of every stage, once, and when each phase runs for which
// micro-batch. An op of an entry runs from entry.begin + op.begin on. The last
// end, and what the host takes, make the predicted seconds (tested).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STEPRECORD_H
#define DPC_PASSES_PRICE_STEPRECORD_H

#include "passes/price/StepEstimate.h"

namespace dpc {

enum class StepQueue { compute, communication, copy };

/// One op of a phase; seconds since the phase began.
struct RecordedOp {
  mlir::Operation *op = nullptr;
  StepQueue queue = StepQueue::compute;
  double begin = 0, end = 0;
  /// Of communication: its buffer, and what a rank sends by level.
  double bytes = 0;
  std::vector<double> bytesPerLevel;
};

struct RecordedPhase {
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double seconds = 0;
  std::vector<RecordedOp> ops; ///< In the order of each queue.
  /// From when to when an update waits for other stages.
  double waitBegin = 0, waitEnd = 0;
};

/// A run of a phase; seconds since the step began.
struct RecordedEntry {
  size_t phase = 0; ///< Index in StageRecord::phases.
  int64_t microBatch = 0;
  double begin = 0;
};

struct StageRecord {
  std::vector<RecordedPhase> phases;
  std::vector<RecordedEntry> entries; ///< In the order in which they run.

  /// When the last one ends.
  double end() const;
  /// Makes the phase of `entry` another one, `times` as fast.
  void makeFaster(RecordedEntry &entry, double times);
  /// It updates together with `other`, which gets there later.
  void updateWith(const StageRecord &other);
};

struct StepRecord {
  std::vector<StageRecord> stages; ///< Of the data rank that takes longest.
  /// Where data-parallel ranks have unlike shares of the batch: the stages of
  /// each kind of them, and of which kind each is. All update when the slowest
  /// does.
  std::vector<std::vector<StageRecord>> kinds;
  std::vector<size_t> kindOfDataRank;
  double seconds = 0;     ///< All of the step.
  double hostSeconds = 0; ///< Of these, what the host takes at the end.

  /// Lets all kinds update with `stages`.
  void meet();
};

/// Cuts what one run of a step function logs into phases.
class PhaseLog {
public:
  explicit PhaseLog(StageRecord &stage) : stage(stage) {}
  /// The ops that follow are of this phase, which begins now if it is new.
  /// Returns where they are logged.
  std::vector<RecordedOp> &enter(Phase phase, double now);
  /// All has run: the loop's phases once for each of `microBatches`, every
  /// `period` seconds.
  void finish(double end, int64_t microBatches, double period);

private:
  StageRecord &stage;
  std::vector<double> begins; ///< By phase.
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPRECORD_H
