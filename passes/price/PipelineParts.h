//===- PipelineParts.h - The parts of a pipeline's time ---------*- C++ -*-===//
//
// Private to passes/price. The time of a pipeline is computed in two steps:
// `measurePipeline` simulates the phases of every stage alone, and
// `runPipeline` simulates the tables of the schedule with the times of these
// phases. A folded evaluation (Fold.h) extrapolates these times between the two
// steps.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_PIPELINEPARTS_H
#define DPC_PASSES_PRICE_PIPELINEPARTS_H

#include "passes/price/StepRecord.h"

namespace dpc {

/// The costs of one rank of a stage. Seconds of phases are per micro-batch;
/// sums are per step.
struct StageParts {
  double setup = 0, update = 0;
  /// The seconds of `update` before its first op that waits for other stages;
  /// equal to `update` if no op waits.
  double updateAlone = 0;
  std::vector<cost::PhaseSeconds> chunks; ///< By chunk.
  double computeSeconds = 0, transferSeconds = 0;
  std::vector<double> bytesPerLevel; ///< Bytes sent by collectives.
  TrafficSums traffic; ///< The traffic that `bytesPerLevel` counts.

  double &secondsOf(Phase phase, int64_t chunk);
};

/// One end of a message: when its stage sends the message or needs it.
struct MessageEnd {
  int64_t stage = 0;
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double at = 0; ///< Seconds since the start of the phase.
};

struct StageMessage {
  MessageEnd from, to;
  double bytes = 0;         ///< Bytes that one rank sends.
  double gatherSeconds = 0; ///< Seconds of the all_gather by the receivers.
  int64_t tag = -1;         ///< The tag of the measured ops.
};

struct PipelineParts {
  std::vector<StageParts> stages;
  std::vector<StageMessage> messages; ///< Sorted by tag.
  cost::RankOrder order;              ///< The order of the ranks of all stages.
  int64_t microBatches = 1;
};

using ScheduleTables = std::vector<std::vector<cost::ScheduleStep>>;

/// A data-parallel rank of a pipeline with uneven batch shares. Equal replicas
/// are measured once.
struct PipelineReplica {
  int64_t microBatches = 1;
  std::vector<size_t> groups; ///< The groups of its devices, by stage.
  bool operator==(const PipelineReplica &) const = default;
};

/// Simulates the phases of every step function alone, on the slowest device of
/// each stage, or on the devices of `replica` if given. Records the phases in
/// `record`.
PipelineParts measurePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                              const cost::Cluster &cluster,
                              const PipelineReplica *replica = nullptr,
                              StepRecord *record = nullptr);

/// Simulates the tables of the schedule. Fails if they deadlock. Adds entries
/// to `record`, which must have the phases that were measured with `parts`.
Expected<StepTime> runPipeline(PipelineParts parts,
                               const ScheduleTables &tables,
                               const cost::Cluster &cluster,
                               StepRecord *record = nullptr);

} // namespace dpc

#endif // DPC_PASSES_PRICE_PIPELINEPARTS_H
