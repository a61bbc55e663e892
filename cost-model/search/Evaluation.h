//===- Evaluation.h - What a strategy costs ---------------------*- C++ -*-===//
//
// The values that describe one strategy: what was decided for it beyond its
// keys (Decisions), what it costs (Evaluation), and what it cannot be below
// (Bounds). Times are in seconds, sizes in bytes, counts of all ranks unless a
// comment says otherwise.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_EVALUATION_H
#define DPC_COST_MODEL_SEARCH_EVALUATION_H

#include "cost-model/machine/Placement.h"
#include "cost-model/solve/PeakMemory.h"
#include "cost-model/strategy/Strategy.h"

#include <memory>

namespace dpc::cost {

struct StepDetail;

/// What one pipeline stage costs. The seconds of phases are those of one
/// micro-batch.
struct StageEvaluation {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0; ///< 0 unless the backward is split (zb-h1).
  double idleSeconds = 0;   ///< Waiting for other stages, per step.
  double memoryBytes = 0;   ///< At the stage's peak.
  /// On a heterogeneous cluster: the slowest device of the stage, and the least
  /// memory that a device of the stage has for a plan.
  std::string device;
  double memoryLimitBytes = 0;
};

/// The seconds that the devices of one group of nodes take for a step without
/// stages: for each micro-batch, and for the rest of the step.
struct LoopSeconds {
  double microBatch = 0, rest = 0;
  double microBatchCompute = 0, restCompute = 0; ///< Parts of the above.
};

/// Neighbouring data-parallel ranks that take equal shares of the batch.
struct ShareOfRanks {
  std::string device; ///< The slowest device of any of these ranks.
  int64_t dataRanks = 0;
  int64_t microBatches = 0; ///< Per rank.
  double seconds = 0;       ///< Per micro-batch.
};

/// What the evaluator chooses for a strategy where the strategy's keys leave it
/// open. Lowering the strategy with the same decisions gives the program that
/// was evaluated.
struct Decisions {
  /// The order in which mesh axes are laid over the devices.
  RankOrder order;
  /// Whether `order` differs from the usual order.
  bool isReordered = false;
  /// The order in which the pipeline fills the groups of nodes (see
  /// HeterogeneousCluster.h); empty = the order of cluster.json.
  std::vector<int64_t> groups;
  /// The largest fraction of the work that each stage has memory for, used to
  /// cut stages on heterogeneous devices; empty = no limit.
  std::vector<double> stageRoom;
  /// The bandwidth of the innermost links, in bytes per second, that op
  /// shardings and stages are chosen for; 0 = the bandwidth of the cluster.
  double linkSpeed = 0;
  /// Micro-batches by data-parallel rank, where uneven shares are faster than
  /// even ones (see BatchShares.h); empty = even shares.
  std::vector<int64_t> batchShares;
};

/// What one strategy costs, as far as it could be evaluated.
struct Evaluation {
  /// Why the strategy cannot be built; empty when it can. The other fields have
  /// no meaning when this one is not empty.
  std::string rejected;
  Decisions decisions;
  double stepSeconds = 0;
  double computeSeconds = 0; ///< Of one rank, a part of stepSeconds.
  /// Communication that no computation hides, transfers to host or disk
  /// included.
  double exposedCommunicationSeconds = 0;
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  double bubbleFraction = 0;  ///< Idle fraction of the step, mean over stages.
  MemoryBreakdown memory;     ///< Of the fullest rank's device, at its peak.
  /// What that device has for a plan; 0 = as much as any other device.
  double memoryLimitBytes = 0;
  double hostBytes = 0;              ///< Offloaded to the host, fullest rank.
  double diskBytes = 0;              ///< Offloaded to disk, fullest rank.
  std::vector<double> bytesPerLevel; ///< Sent by one rank per step, per level.
  /// The same traffic by mesh axes. It decides which ranks are neighbours.
  std::vector<Traffic> traffic;
  /// By group of nodes, on heterogeneous clusters whose ranks may take uneven
  /// shares of the batch; else empty.
  std::vector<LoopSeconds> groupSeconds;
  /// `decisions.batchShares` as runs of equal shares.
  std::vector<ShareOfRanks> shares;
  double evenSeconds = 0;              ///< The step's time with even shares.
  double flops = 0;                    ///< Of one step over all ranks.
  std::vector<StageEvaluation> stages; ///< Of a pipeline, by stage.
  /// The evaluation is extrapolated from a program with few layers.
  bool isFolded = false;
  /// The evaluation is folded and may be a few per cent off: the winner is
  /// evaluated again.
  bool isRough = false;
  /// The evaluation is assembled from segments that strategies share: the
  /// winner is evaluated again.
  bool isComposed = false;
  std::shared_ptr<const StepDetail> detail; ///< Set by Evaluator::describe.
};

/// `strategy` with the placement and the batch shares of `decisions`, where
/// these differ from the usual ones.
Strategy placedStrategy(const Strategy &strategy, const Decisions &decisions);

/// A composed evaluation.
struct Composition {
  Evaluation evaluation;
  /// The step takes longer than the limit: `evaluation.stepSeconds` is a bound,
  /// and the other fields are not known.
  bool isBound = false;
};

/// Values that the true evaluation cannot be below.
struct Bounds {
  double stepSeconds = 0;
  double memoryBytes = 0;
};

/// Totals of the unpartitioned training step, for the formula baselines and
/// report.json.
struct ModelTotals {
  double parameters = 0;               ///< Count.
  double parameterBytes = 0;           ///< As stored on the device.
  double gradientBytes = 0;            ///< Of a full set of gradients.
  double optimizerBytes = 0;           ///< States and masters.
  double flopsPerStep = 0;             ///< Forward + backward, global batch.
  double activationBytesPerSample = 0; ///< Kept from forward for backward.
  double tokensPerSample = 1;          ///< For tokens_per_second.
  int64_t globalBatch = 1;
  int64_t layers = 1;              ///< Repeated blocks, bounds pp.
  double hiddenBytesPerSample = 0; ///< A block's output: pp and tp traffic.
  int64_t experts = 1;             ///< Of a mixture's largest block; 1 = none.
  double expertParameters = 0; ///< Count, of `parameters`: those of experts.
  /// What goes in and out of one block's experts, forward.
  double routedBytesPerSample = 0;
  DType computeType = DType::F32;
  double fp8Flops = 0; ///< Of `flopsPerStep`: products that may be in fp8.
  bool training = true;

  double tokensPerStep() const {
    return tokensPerSample * static_cast<double>(globalBatch);
  }
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_EVALUATION_H
