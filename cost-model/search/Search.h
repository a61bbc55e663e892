//===- Search.h - The outer loop over strategies ----------------*- C++ -*-===//
//
// Strategies that share pieces (`Evaluator::blockOf`) are searched by pieces
// (BlockSearch.h): a few measurements tell about all strategies made of them,
// and the best of these are then evaluated by themselves. Elsewhere branch and
// bound: candidates are bounded cheaply (`Evaluator::bound`) and evaluated by
// what the formulas promise (estimateByFormula), which learn from what
// evaluations say; where not all can be, two in three among the neighbours
// (Neighbours.h) of the best one so far. Plain strategies that everybody knows,
// the baselines, are always among them. A candidate is pruned when its bounds
// prove that it cannot enter the kept list:
//   (P1) its memory lower bound is past the device's usable memory, or
//   (P2) its time lower bound exceeds the worst of the `top` best that fit.
// Both are exact as long as the bounds are admissible (never above the true
// value), so that pruning never changes the winner.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_SEARCH_H
#define DPC_COST_MODEL_SEARCH_SEARCH_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/solve/PeakMemory.h"
#include "cost-model/search/ParetoFront.h"
#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

#include <functional>
#include <limits>
#include <memory>

namespace dpc::cost {

struct StepDetail;

/// What one pipeline stage costs. Seconds of phases are those of one
/// micro-batch.
struct StageEvaluation {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0; ///< 0 unless the backward is split (zb-h1).
  double idleSeconds = 0;   ///< Per step, waiting for other stages.
  double memoryBytes = 0;   ///< At the stage's peak.
  /// Where devices are unlike: the slowest of the stage's, and the least memory
  /// that one of them has for a plan.
  std::string device;
  double memoryLimitBytes = 0;
};

/// What the devices of one group of nodes take for a step without stages: each
/// of its micro-batches, and the rest.
struct LoopSeconds {
  double microBatch = 0, rest = 0;
  double microBatchCompute = 0, restCompute = 0; ///< Within these.
};

/// Neighbouring data-parallel ranks that take the same of the batch.
struct ShareOfRanks {
  std::string device; ///< The slowest that one of them uses.
  int64_t dataRanks = 0;
  int64_t microBatches = 0; ///< Of each.
  double seconds = 0;       ///< For one.
};

/// What one strategy costs, as far as it could be evaluated.
struct Evaluation {
  /// Why the strategy cannot be built; empty when it can. The other fields are
  /// then meaningless.
  std::string rejected;
  double stepSeconds = 0;
  double computeSeconds = 0;              ///< Of one rank, within stepSeconds.
  double exposedCommunicationSeconds = 0; ///< Transfers to host or disk, too.
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  double bubbleFraction = 0;  ///< Idle share of the step, mean over stages.
  MemoryBreakdown memory;     ///< Of the fullest rank's device, at its peak.
  /// What that device has for a plan; 0: as much as any other.
  double memoryLimitBytes = 0;
  double hostBytes = 0;              ///< Offloaded, of the fullest rank.
  double diskBytes = 0;              ///< Offloaded, of the fullest rank.
  std::vector<double> bytesPerLevel; ///< Sent by one rank per step, per level.
  /// The same of all, by axes: what decides which ranks are neighbours.
  std::vector<Traffic> traffic;
  RankOrder order;          ///< The axes on the devices.
  bool isReordered = false; ///< They are not in their usual order.
  /// The order in which groups of nodes are filled (see MixedCluster.h); empty:
  /// as in cluster.json.
  std::vector<int64_t> groups;
  /// What unlike stages were cut with: the most of the work, of 1, that each
  /// has memory for; empty = any.
  std::vector<double> stageRoom;
  /// Bytes per second of the innermost links for which op shardings and stages
  /// were chosen, where that turned out best; 0 = those of the cluster.
  double linkSpeed = 0;
  /// By group of nodes, where they are unlike and their ranks may have unlike
  /// shares of the batch; else empty.
  std::vector<LoopSeconds> groupSeconds;
  /// Micro-batches by data-parallel rank, where unlike numbers are faster than
  /// the same for all, and what these would take (see BatchShares.h).
  std::vector<int64_t> batchShares;
  std::vector<ShareOfRanks> shares; ///< The same, by runs.
  double evenSeconds = 0;
  double flops = 0;                    ///< Of one step over all ranks.
  std::vector<StageEvaluation> stages; ///< Of a pipeline, by rank stage.
  /// Extrapolated from a few layers; else all of the program was compiled.
  bool isFolded = false;
  /// Folded, and a few per cent off perhaps: not to be chosen unseen.
  bool isRough = false;
  /// Made of pieces that other strategies share: not to be chosen unseen.
  bool isComposed = false;
  std::shared_ptr<const StepDetail> detail; ///< Of Evaluator::describe.
};

/// What the pieces that strategies share say about one of them.
struct Composition {
  Evaluation evaluation;
  /// Past the limit: `evaluation.stepSeconds` is a bound, nothing else is
  /// known.
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

/// Implemented over the IR in passes/. `bound` and `blockOf` are asked by
/// several threads at once, the rest by the thread that searches.
class Evaluator {
public:
  virtual ~Evaluator();
  virtual ModelTotals totals() = 0;
  /// Admissible and cheap.
  virtual Bounds bound(const Strategy &strategy) = 0;
  virtual Evaluation evaluate(const Strategy &strategy) = 0;
  /// The same of several, in their order, perhaps at once.
  virtual std::vector<Evaluation>
  evaluateMany(const std::vector<Strategy> &strategies);
  /// How many of them to ask for at a time.
  virtual int64_t batchSize() const { return 1; }
  /// Equal for strategies that are made of the same pieces, so that what is
  /// measured for one is known of all; empty where there are no such pieces.
  virtual std::string blockOf(const Strategy &) { return {}; }
  /// `blocks`: strategies of one block each. Measures the pieces of each, and
  /// makes its strategies of them; nothing where that cannot be. What takes
  /// longer than `limit` seconds for sure is only bounded.
  virtual std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks, double limit);
  /// As exact as can be, whatever it takes.
  virtual Evaluation evaluateWhole(const Strategy &strategy) {
    return evaluate(strategy);
  }
  /// The same, with what there is to see of the step. Perhaps next to
  /// evaluateMany.
  virtual Evaluation describe(const Strategy &strategy) {
    return evaluateWhole(strategy);
  }
  /// Makes what `describe` needs of any strategy, next to all of the above.
  virtual void prepareToDescribe() {}
};

enum class Objective { Throughput, Memory };

/// throughput, latency or memory. Steps have a fixed batch: the one that is
/// over first has the highest throughput and the least latency.
std::optional<Objective> symbolizeObjective(std::string_view name);

/// `strategy` with the placement and the shares of the batch that were found
/// for it, where these are not the usual ones.
Strategy placedStrategy(const Strategy &strategy, const Evaluation &evaluation);

/// A strategy with what was found about it.
struct Candidate {
  Strategy strategy;
  Evaluation evaluation;
  bool fits = false;
  /// "formula" for estimates that were not made over the IR, "pieces" for those
  /// made of what strategies share, "folded" for those made over a few of the
  /// layers, else "graph".
  std::string method = "graph";
  /// Empty for the winner; else one line: why it is not chosen.
  std::string why;
  /// Not empty when the strategy was left to the formula because others
  /// promised more: nothing is known against it.
  std::string skipped;
};

/// A plain strategy everybody knows, evaluated or rejected.
struct Baseline {
  std::string name; ///< single, ddp, zero1, zero2, zero3, megatron-3d.
  Candidate candidate;
};

/// What a search has done so far.
struct SearchProgress {
  int64_t considered = 0;
  int64_t done = 0; ///< Evaluated, or made of measured pieces, or excluded.
  /// Value of the best that fits, in seconds or bytes as the objective has it.
  double best = std::numeric_limits<double>::infinity();
};

/// A plan on the way from a well-known one to the winner.
struct Change {
  std::string what; ///< "zero 0 -> 1"; of the first plan, all its keys.
  double stepSeconds = 0;
  double memoryBytes = 0;
  bool fits = false;
};

struct SearchOptions {
  StrategyRequest request;
  StrategySpace space;
  Objective objective = Objective::Throughput;
  int64_t top = 10;
  /// Most calls of Evaluator::evaluate for candidates, or blocks measured, the
  /// most promising first; past it candidates are only bounded, and the winner
  /// is the best of those evaluated. Baselines are not counted.
  int64_t maxEvaluations = INT64_MAX;
  /// For a search whose winner is compared with a plan that is known: a winner
  /// of more than this value may be neither evaluated by itself nor whole, and
  /// a first evaluation of more than the second value is the last.
  double closeLookUpTo = std::numeric_limits<double>::infinity();
  double goesOnUpTo = std::numeric_limits<double>::infinity();
  /// Whether the baselines are wanted.
  bool baselines = true;
  /// The request's micro-batch is that of the one strategy that is asked about:
  /// baselines take what is best for each.
  bool freesBaselines = false;
  /// The winner is evaluated whole even if folding is exact enough: a plan
  /// follows.
  bool confirmsWinner = false;
  /// Called between evaluations, on the thread that searches.
  std::function<void(const SearchProgress &)> progress;
};

struct SearchResult {
  /// Index 0 is the winner; sorted by the objective, those that do not fit
  /// after those that fit, those that cannot be built last. At most `top`.
  /// Pruned candidates fill free places, with what their bounds say. Empty only
  /// when the request allows no strategy.
  std::vector<Candidate> candidates;
  std::vector<Baseline> baselines;
  /// What limits the winner: "compute", "memory", "communication over LEVEL",
  /// "pipeline bubble", "transfers to host memory", "transfers to disk",
  /// "launch overhead".
  std::string bindingConstraint;
  /// Where memory limits a winner: the fastest plan that it keeps away, and
  /// what that needs. Else empty.
  std::string bindingDetail;
  ModelTotals totals;
  double memoryLimitBytes = 0;
  double seconds = 0;
  int64_t considered = 0;
  int64_t pruned = 0;  ///< Proven worse by their bounds.
  int64_t skipped = 0; ///< Past maxEvaluations.
  /// Of all that fit and were evaluated, top or not.
  ParetoFront pareto;
  /// The baseline that the winner is compared with, and the plans from it to
  /// the winner, each evaluated; empty where there is none, or it is the
  /// winner.
  std::string changedFrom;
  std::vector<Change> changes;
  /// Why some devices stay idle; empty where all are used (IdleDevices.h).
  std::string idle;

  bool hasWinner() const { return !candidates.empty() && candidates[0].fits; }
};

/// What there is to try for a model on a cluster with the keys that are
/// available: pipelines up to one layer per chunk, the schedules, sequences
/// over the ranks of a node, grids, ZeRO stages, recomputation and, where
/// nothing fits without, offloading of training.
StrategySpace
spaceFor(const ModelTotals &totals, const Cluster &cluster,
         const std::vector<std::string_view> &available = availableKeys());

/// Runs the search. A fixed strategy that does not fit is still returned with
/// `fits` false: the caller decides whether to go on.
SearchResult searchStrategies(const Cluster &cluster, Evaluator &evaluator,
                              const SearchOptions &options);

/// Estimates a strategy from totals alone (no graph): used for baselines that
/// this build cannot execute. Formulas in Baselines.cpp.
Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const Strategy &strategy);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_SEARCH_H
