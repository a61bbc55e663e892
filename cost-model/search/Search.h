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
#include "cost-model/search/Evaluator.h"
#include "cost-model/search/ParetoFront.h"

#include <functional>
#include <limits>

namespace dpc::cost {

enum class Objective { Throughput, Memory };

/// throughput, latency or memory. Steps have a fixed batch: the one that is
/// over first has the highest throughput and the least latency.
std::optional<Objective> symbolizeObjective(std::string_view name);

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
