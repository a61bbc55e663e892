//===- PipelineParts.h - The parts of a pipeline's time ---------*- C++ -*-===//
//
// Private to passes/price. The time of a pipeline is computed in two steps.
// `measurePipeline` simulates the phases of each stage alone. `runPipeline`
// simulates the schedule with the times of the phases. Between the two steps, a
// folded evaluation (Fold.h) extrapolates the times to more layers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/price/StepRecord.h"

namespace dpc {

/// The costs of one rank of a stage. Phases are in seconds per run, and sums
/// are per step.
struct StageParts {
  double setup = 0, update = 0;
  /// The seconds of `update` before the first op that waits for other stages;
  /// equal to `update` if no op waits.
  double updateAlone = 0;
  std::vector<cost::PhaseSeconds> chunks; ///< By chunk.
  double computeSeconds = 0, transferSeconds = 0;
  std::vector<double> bytesPerLevel; ///< Bytes sent by collectives.
  TrafficSums traffic; ///< The traffic counted in `bytesPerLevel`.

  double &secondsOf(Phase phase, int64_t chunk);
};

/// One end of a message: when the stage sends it or needs it.
struct MessageEnd {
  int64_t stage = 0;
  Phase phase = Phase::forward;
  int64_t chunk = 0;
  double at = 0; ///< seconds since the begin of the phase
};

struct StageMessage {
  MessageEnd from, to;
  double bytes = 0;         ///< Bytes that one rank sends.
  double gatherSeconds = 0; ///< Seconds of an all_gather by the receivers.
  int64_t tag = -1;         ///< The tag of the send and the recv.
};

struct PipelineParts {
  std::vector<StageParts> stages;
  std::vector<StageMessage> messages; ///< Sorted by tag.
  cost::RankOrder order;
  int64_t microBatches = 1;
};

using ScheduleTables = std::vector<std::vector<cost::ScheduleStep>>;

/// A data-parallel rank of a pipeline with uneven batch shares. Equal replicas
/// are measured once.
struct PipelineReplica {
  int64_t microBatches = 1;
  std::vector<size_t> groups; ///< By stage, the group of the rank's devices.
  bool operator==(const PipelineReplica &) const = default;
};

/// Simulates the phases of every step function alone, on the devices of
/// `replica`, or on the slowest device of each stage if `replica` is null.
/// Records the phases in `record`.
PipelineParts measurePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                              const cost::Cluster &cluster,
                              const PipelineReplica *replica = nullptr,
                              StepRecord *record = nullptr);

/// Simulates the schedule. Fails if it deadlocks. Adds entries to `record`,
/// which must contain the phases recorded when `parts` were measured.
Expected<StepTime> runPipeline(PipelineParts parts,
                               const ScheduleTables &tables,
                               const cost::Cluster &cluster,
                               StepRecord *record = nullptr);

} // namespace dpc
