//===- PipelineParts.h - What a pipeline's time is made of ------*- C++ -*-===//
//
// Private to passes/price. The time of a pipeline is found in two steps: the
// phases of every stage are run alone (`measurePipeline`), then the schedule's
// tables are simulated over what that gave (`runPipeline`). What lies between
// is plain numbers, which a folded evaluation (Fold.h) makes by other means.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_PIPELINEPARTS_H
#define DPC_PASSES_PRICE_PIPELINEPARTS_H

#include "passes/price/StepRecord.h"

namespace dpc {

/// What a rank stage does. Seconds of phases count one micro-batch, sums a
/// step.
struct StageParts {
  double setup = 0, update = 0;
  /// In update, when the first op that waits for other stages begins; or all of
  /// update.
  double updateAlone = 0;
  /// By chunk.
  std::vector<cost::PhaseSeconds> chunks;
  double computeSeconds = 0, transferSeconds = 0;
  std::vector<double> bytesPerLevel; ///< Sent in collectives.
  TrafficSums traffic;               ///< The same.

  double &secondsOf(Phase phase, int64_t chunk);
};

/// One end of a message: where in its stage it is sent or needed.
struct MessageEnd {
  int64_t stage = 0;
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double at = 0; ///< Since the start of the phase.
};

struct StageMessage {
  MessageEnd from, to;
  double bytes = 0;         ///< One rank's.
  double gatherSeconds = 0; ///< Of the receivers, to have all of it.
  int64_t tag = -1;         ///< Of the ops, where it was measured.
};

struct PipelineParts {
  std::vector<StageParts> stages;
  std::vector<StageMessage> messages; ///< By tag.
  cost::RankOrder order;              ///< Of all stages' ranks.
  int64_t microBatches = 1;
};

using ScheduleTables = std::vector<std::vector<cost::ScheduleStep>>;

/// Of data-parallel ranks with unlike shares of the batch, those that one
/// measurement is for.
struct PipelineReplica {
  int64_t microBatches = 1;
  std::vector<size_t> groups; ///< Of the devices, by stage.
  bool operator==(const PipelineReplica &) const = default;
};

/// Runs the phases of every step function alone: on the slowest devices of
/// each, or on those of `replica`. Fills the phases of `record`.
PipelineParts measurePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                              const cost::Cluster &cluster,
                              const PipelineReplica *replica = nullptr,
                              StepRecord *record = nullptr);

/// Runs the tables. An error where the stages would wait for each other for
/// ever. Fills the entries of `record`, whose phases are those of `parts`.
Expected<StepTime> runPipeline(PipelineParts parts,
                               const ScheduleTables &tables,
                               const cost::Cluster &cluster,
                               StepRecord *record = nullptr);

} // namespace dpc

#endif // DPC_PASSES_PRICE_PIPELINEPARTS_H
