//===- Evaluation.h - The cost of a strategy --------------------*- C++ -*-===//
//
// Values that describe one strategy: the choices that its keys leave open
// (Decisions), its cost (Evaluation), and lower bounds of the cost (Bounds).
// Unless a comment says otherwise, times are in seconds, sizes are in bytes,
// and counts cover all ranks.
//
//===----------------------------------------------------------------------===//
#pragma once

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
  double weightSeconds = 0; ///< 0 unless the backward pass is split (zb-h1).
  double idleSeconds = 0;   ///< Waiting for other stages, per step.
  double memoryBytes = 0;   ///< At the stage's peak.
  /// On a heterogeneous cluster: the slowest device of the stage, and the
  /// usable bytes of the smallest one.
  std::string device;
  double memoryLimitBytes = 0;
};

/// The time of a step on one group of nodes without pipeline stages: the
/// seconds per micro-batch, and the seconds outside the loop of micro-batches.
struct LoopSeconds {
  double microBatch = 0, rest = 0;
  /// Computation only.
  double microBatchCompute = 0, restCompute = 0;
};

/// Adjacent data-parallel ranks that take equal shares of the batch.
struct ShareOfRanks {
  std::string device; ///< The slowest device of the ranks.
  int64_t dataRanks = 0;
  int64_t microBatches = 0; ///< Per rank.
  double seconds = 0;       ///< Per micro-batch.
};

/// Choices of the evaluator that the keys of a strategy leave open. Lowering
/// the strategy with these choices gives the evaluated program.
struct Decisions {
  RankOrder order;
  /// Whether `order` differs from the default order.
  bool isReordered = false;
  /// The order in which the pipeline fills the groups of nodes (see
  /// HeterogeneousCluster.h); empty = the order of cluster.json.
  std::vector<int64_t> groups;
  /// For each stage on heterogeneous devices, the largest fraction of the
  /// model's work that fits in the stage's memory; empty = no limit.
  std::vector<double> stageRoom;
  /// The bandwidth of the innermost links, in bytes per second, for which op
  /// shardings and stages are chosen; 0 = the bandwidth of the cluster.
  double linkSpeed = 0;
  /// Micro-batches of each data-parallel rank if uneven shares are faster (see
  /// BatchShares.h); empty = even shares.
  std::vector<int64_t> batchShares;
};

struct Evaluation {
  /// Why the strategy cannot be built. If this text is not empty, the other
  /// fields have no meaning.
  std::string rejected;
  Decisions decisions;
  double stepSeconds = 0;
  double computeSeconds = 0; ///< Of one rank; a part of stepSeconds.
  /// Exposed communication, including transfers to host or disk.
  double exposedCommunicationSeconds = 0;
  double transferSeconds = 0; ///< To and from host or disk.
  double bubbleFraction = 0;  ///< Idle fraction, mean over stages.
  MemoryBreakdown memory;     ///< Peak of the fullest device.
  /// The usable bytes of the fullest rank's device; 0 = the largest usable
  /// bytes of all devices.
  double memoryLimitBytes = 0;
  double hostBytes = 0; ///< Offloaded to the host by the fullest rank.
  double diskBytes = 0; ///< Offloaded to disk by the fullest rank.
  std::vector<double> bytesPerLevel; ///< Sent by one rank per step.
  /// The traffic by mesh axes, which determines the best order of the axes.
  std::vector<Traffic> traffic;
  /// By group of nodes; empty unless the cluster is heterogeneous and its ranks
  /// may take uneven shares of the batch.
  std::vector<LoopSeconds> groupSeconds;
  /// Why the ranks of a heterogeneous cluster cannot take uneven shares,
  /// although they have several micro-batches: the loss reads sums over the
  /// batch. Else "".
  std::string whyEven;
  /// `decisions.batchShares` as runs of equal shares.
  std::vector<ShareOfRanks> shares;
  double evenSeconds = 0; ///< The time of the step with even shares.
  double flops = 0;       ///< Of one step over all ranks.
  std::vector<StageEvaluation> stages; ///< Of a pipeline.
  /// The evaluation is extrapolated from a program with few layers.
  bool isFolded = false;
  /// The evaluation is folded and may be a few per cent off. An exact
  /// evaluation replaces it if the strategy wins.
  bool isRough = false;
  /// The evaluation is composed from segments that several strategies share. An
  /// exact evaluation replaces it if the strategy wins.
  bool isComposed = false;
  std::shared_ptr<const StepDetail> detail; ///< Set by Evaluator::describe.
};

/// Returns the evaluation of a strategy that cannot be built.
inline Evaluation rejection(std::string why) {
  Evaluation evaluation;
  evaluation.rejected = std::move(why);
  return evaluation;
}

/// Returns `strategy` with the placement and batch shares of `decisions` where
/// they differ from the defaults.
Strategy placedStrategy(const Strategy &strategy, const Decisions &decisions);

struct Composition {
  Evaluation evaluation;
  /// Whether the step takes longer than the limit. Then only
  /// `evaluation.stepSeconds` is set, to a lower bound.
  bool isBound = false;
};

struct Bounds {
  double stepSeconds = 0;
  double memoryBytes = 0;
};

/// Totals of the unpartitioned training step, for formulas and report.json.
/// Products [rows, k] x [k, n] of activations and weights that have one shape.
struct GemmTotals {
  int64_t batch = 1;        ///< Stacked weights, such as those of experts.
  double rowsPerSample = 0; ///< Of each of them.
  int64_t n = 0, k = 0;
  double count = 0; ///< In the forward pass of all layers.

  double flopsPerSample() const {
    return 2 * count * double(batch) * rowsPerSample * double(n) * double(k);
  }
};

struct ModelTotals {
  double parameters = 0;
  double parameterBytes = 0; ///< As stored on the device.
  /// Of the copies in the compute type; 0 if parameters are stored in it.
  double copyBytes = 0;
  double gradientBytes = 0; ///< Of all gradients.
  /// The part of `gradientBytes` of parameters that the first and the last
  /// stage read, such as an embedding that is also the head.
  double tiedBytes = 0;
  double optimizerBytes = 0; ///< States and master weights.
  double flopsPerStep = 0;   ///< Forward and backward pass of the global batch.
  double activationBytesPerSample = 0; ///< Kept for the backward pass.
  double tokensPerSample = 1;          ///< Converts samples to tokens.
  int64_t globalBatch = 1;
  int64_t layers = 1;              ///< Repeated blocks; the largest pp * vpp.
  double hiddenBytesPerSample = 0; ///< Output of a block, which pp and tp send.
  /// The ones of layers, which occur several times, come before others, and the
  /// ones with the most FLOPs come first.
  std::vector<GemmTotals> gemms = {};
  /// The kernels of a micro-batch in the forward and the backward pass of all
  /// layers, without GEMMs and without elementwise ops, which are often fused.
  double otherKernels = 0;
  int64_t experts = 1;         ///< Largest number in a block; 1 = none.
  double expertParameters = 0; ///< The part of `parameters` in experts.
  /// Bytes that go into and out of a block's experts in the forward pass.
  double routedBytesPerSample = 0;
  /// The part of `activationBytesPerSample` in rows of experts without slots.
  /// If experts are split, no rank keeps it (dpc-tile-experts).
  double expertRowBytesPerSample = 0;
  DType computeType = DType::F32;
  double fp8Flops = 0; ///< Of GEMMs that may run in fp8.
  bool training = true;

  double tokensPerStep() const {
    return tokensPerSample * static_cast<double>(globalBatch);
  }
};

} // namespace dpc::cost
