//===- PipelineParts.h - The parts of a pipeline's time ----------*- C++
//-*-===//
//
// Private to passes/price. The time of a pipeline is computed in two steps:
// `measurePipeline` simulates the phases of every stage alone, and
// `runPipeline` simulates the tables of the schedule with these times. A folded
// evaluation (Fold.h) computes the times between the two steps by
// extrapolation.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_PIPELINEPARTS_H
#define DPC_PASSES_PRICE_PIPELINEPARTS_H

#include "passes/price/StepRecord.h"

namespace dpc {

/// The costs of one rank of a stage: seconds of phases for one micro-batch,
/// sums for a step.
struct StageParts {
  double setup = 0, update = 0;
  /// The part of `update` before its first op that waits for other stages; all
  /// of it if no op waits.
  double updateAlone = 0;
  std::vector<cost::PhaseSeconds> chunks; ///< By chunk.
  double computeSeconds = 0, transferSeconds = 0;
  std::vector<double> bytesPerLevel; ///< Sent by collectives.
  TrafficSums traffic;               ///< The same bytes.

  double &secondsOf(Phase phase, int64_t chunk);
};

/// One end of a message: the time in its stage at which it is sent or needed.
struct MessageEnd {
  int64_t stage = 0;
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double at = 0; ///< Since the start of the phase.
};

struct StageMessage {
  MessageEnd from, to;
  double bytes = 0;         ///< Sent by one rank.
  double gatherSeconds = 0; ///< Of the all_gather by the receivers.
  int64_t tag = -1;         ///< Of the measured ops.
};

struct PipelineParts {
  std::vector<StageParts> stages;
  std::vector<StageMessage> messages; ///< By tag.
  cost::RankOrder order;              ///< Of the ranks of all stages.
  int64_t microBatches = 1;
};

using ScheduleTables = std::vector<std::vector<cost::ScheduleStep>>;

/// A data-parallel rank of a pipeline with uneven shares of the batch. Equal
/// replicas are measured once.
struct PipelineReplica {
  int64_t microBatches = 1;
  std::vector<size_t> groups; ///< The groups of its devices, by stage.
  bool operator==(const PipelineReplica &) const = default;
};

/// Simulates the phases of every step function alone, on the slowest device of
/// each stage or on the devices of `replica`. Fills the phases of `record`.
PipelineParts measurePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                              const cost::Cluster &cluster,
                              const PipelineReplica *replica = nullptr,
                              StepRecord *record = nullptr);

/// Simulates the tables of the schedule. Fails if they deadlock. Fills the
/// entries of `record`, whose phases have been measured with `parts`.
Expected<StepTime> runPipeline(PipelineParts parts,
                               const ScheduleTables &tables,
                               const cost::Cluster &cluster,
                               StepRecord *record = nullptr);

} // namespace dpc

#endif // DPC_PASSES_PRICE_PIPELINEPARTS_H
