//===- Evaluation.h - The cost of a strategy --------------------*- C++ -*-===//
//
// The values that describe one strategy: the choices that its keys leave open
// (Decisions), its cost (Evaluation), and lower bounds of the cost (Bounds).
// Unless a comment says otherwise, times are in seconds, sizes in bytes, and
// counts cover all ranks.
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

/// The cost of one pipeline stage. The times of phases are per micro-batch.
struct StageEvaluation {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0; ///< 0 unless the backward is split (zb-h1).
  double idleSeconds = 0;   ///< Waiting for other stages, per step.
  double memoryBytes = 0;   ///< At the stage's peak.
  /// On a heterogeneous cluster: the slowest device of the stage, and the
  /// smallest memory that a device of the stage has for a plan.
  std::string device;
  double memoryLimitBytes = 0;
};

/// The time of a step without stages on the devices of one group of nodes: the
/// seconds per micro-batch, and the seconds outside the loop of micro-batches.
struct LoopSeconds {
  double microBatch = 0, rest = 0;
  double microBatchCompute = 0,
         restCompute = 0; ///< The parts that are computation.
};

/// Adjacent data-parallel ranks that take equal shares of the batch.
struct ShareOfRanks {
  std::string device; ///< The slowest device among those of the ranks.
  int64_t dataRanks = 0;
  int64_t microBatches = 0; ///< Per rank.
  double seconds = 0;       ///< Per micro-batch.
};

/// The evaluator's choices where the keys of a strategy leave a choice open.
/// Lowering the strategy with these decisions gives the program that was
/// evaluated.
struct Decisions {
  /// The order in which mesh axes are laid over the devices.
  RankOrder order;
  /// Whether `order` differs from the default order.
  bool isReordered = false;
  /// The order in which the pipeline fills the groups of nodes (see
  /// HeterogeneousCluster.h); empty = the order of cluster.json.
  std::vector<int64_t> groups;
  /// The largest fraction of the work that each stage has memory for, used to
  /// cut stages on heterogeneous devices; empty = no limit.
  std::vector<double> stageRoom;
  /// Op shardings and stages are chosen for this bandwidth of the innermost
  /// links, in bytes per second; 0 = the bandwidth of the cluster.
  double linkSpeed = 0;
  /// Micro-batches by data-parallel rank, where uneven shares are faster than
  /// even ones (see BatchShares.h); empty = even shares.
  std::vector<int64_t> batchShares;
};

/// The cost of one strategy, or the reason why it cannot be built.
struct Evaluation {
  /// Why the strategy cannot be built; empty if it can. If this field is not
  /// empty, the other fields have no meaning.
  std::string rejected;
  Decisions decisions;
  double stepSeconds = 0;
  double computeSeconds = 0; ///< Of one rank, a part of stepSeconds.
  /// Exposed communication, including transfers to host or disk.
  double exposedCommunicationSeconds = 0;
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  double bubbleFraction = 0;  ///< Idle fraction of the step, mean over stages.
  MemoryBreakdown memory;     ///< Of the fullest rank's device, at its peak.
  /// The memory that the device of the fullest rank has for a plan; 0 = the
  /// largest that any device has.
  double memoryLimitBytes = 0;
  double hostBytes = 0;              ///< Offloaded to the host, fullest rank.
  double diskBytes = 0;              ///< Offloaded to disk, fullest rank.
  std::vector<double> bytesPerLevel; ///< Sent by one rank per step, per level.
  /// The traffic by mesh axes, from which the order of the axes is chosen.
  std::vector<Traffic> traffic;
  /// By group of nodes; empty unless the cluster is heterogeneous and its ranks
  /// may take uneven shares of the batch.
  std::vector<LoopSeconds> groupSeconds;
  /// `decisions.batchShares` as runs of equal shares.
  std::vector<ShareOfRanks> shares;
  double evenSeconds = 0;              ///< The step's time with even shares.
  double flops = 0;                    ///< Of one step over all ranks.
  std::vector<StageEvaluation> stages; ///< Of a pipeline, by stage.
  /// The evaluation is extrapolated from a program with few layers.
  bool isFolded = false;
  /// The evaluation is folded and may be a few per cent off. If it wins, it is
  /// replaced by an exact evaluation.
  bool isRough = false;
  /// The evaluation is assembled from segments that strategies share. If it
  /// wins, it is replaced by an exact evaluation.
  bool isComposed = false;
  std::shared_ptr<const StepDetail> detail; ///< Set by Evaluator::describe.
};

/// Returns `strategy` with the placement and the batch shares of `decisions`
/// where they differ from the defaults.
Strategy placedStrategy(const Strategy &strategy, const Decisions &decisions);

/// A composed evaluation.
struct Composition {
  Evaluation evaluation;
  /// The step takes longer than the limit: `evaluation.stepSeconds` is a bound,
  /// and the other fields are not known.
  bool isBound = false;
};

/// Lower bounds of the true evaluation.
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
  double activationBytesPerSample = 0; ///< Kept for the backward pass.
  double tokensPerSample = 1;          ///< For tokens_per_second.
  int64_t globalBatch = 1;
  int64_t layers = 1;              ///< Repeated blocks, bounds pp.
  double hiddenBytesPerSample = 0; ///< A block's output: pp and tp traffic.
  int64_t experts = 1;             ///< In the largest block; 1 = no experts.
  double expertParameters = 0; ///< How many of `parameters` belong to experts.
  /// Bytes of the inputs and outputs of one block's experts, in the forward
  /// pass.
  double routedBytesPerSample = 0;
  DType computeType = DType::F32;
  double fp8Flops = 0; ///< Of GEMMs that may run in fp8.
  bool training = true;

  double tokensPerStep() const {
    return tokensPerSample * static_cast<double>(globalBatch);
  }
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_EVALUATION_H
