//===- Search.h - The outer loop over strategies ----------------*- C++ -*-===//
//
// The search evaluates candidates through an Evaluator and keeps the best ones:
//   * SearchSpace.h lists the candidates, Evaluator::bound bounds them.
//   * BranchAndBound.h evaluates candidates in the order of their estimates
//     (FormulaEstimate.h). If candidates share segments (Evaluator::blockOf),
//     BlockSearch.h is used instead: it composes the evaluations of all
//     candidates from a few measurements.
//   * BaselineSearch.h evaluates the baselines.
//   * ConfirmWinner.h evaluates the best candidates exactly.
//   * Changes.h and Explain.h explain why the winner wins.
//
// A candidate is pruned when its bounds prove that it cannot be shown:
//   (P1) its memory bound is beyond the device's usable memory, or
//   (P2) its time bound is beyond the time of the worst of the `top` best
//        candidates that fit.
// Both rules are exact as long as the bounds are admissible (never above the
// true value), so that pruning never changes the winner.
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

/// Parses throughput, latency or memory. Throughput and latency are the same
/// objective because the batch of a step is fixed.
std::optional<Objective> symbolizeObjective(std::string_view name);

/// The value that `objective` minimizes: the step's seconds, or the bytes of
/// the fullest device.
inline double valueOf(Objective objective, double seconds, double bytes) {
  return objective == Objective::Memory ? bytes : seconds;
}
inline double valueOf(Objective objective, const Evaluation &evaluation) {
  return valueOf(objective, evaluation.stepSeconds, evaluation.memory.total());
}

/// A strategy, its evaluation, and why it was not chosen.
struct Candidate {
  Strategy strategy;
  Evaluation evaluation;
  bool fits = false;
  /// "formula" for estimates, "pieces" for composed evaluations, "folded" for
  /// folded ones, "graph" for evaluations of the whole program.
  std::string method = "graph";
  /// One line that says why the candidate is not chosen; empty for the winner.
  std::string why;
  /// If the candidate was only estimated although nothing excludes it: one line
  /// that says why. Otherwise empty.
  std::string skipped;
};

/// A default strategy to compare with, evaluated or rejected.
struct Baseline {
  std::string name; ///< single, ddp, zero1, zero2, zero3, megatron-3d.
  Candidate candidate;
};

/// The progress of a search.
struct SearchProgress {
  int64_t considered = 0;
  int64_t done = 0; ///< Evaluated, composed or excluded.
  /// The value of the best candidate that fits, see valueOf.
  double best = std::numeric_limits<double>::infinity();
};

/// A plan on the path from a baseline to the winner.
struct Change {
  std::string what; ///< "zero 0 -> 1"; for the first plan, all its keys.
  double stepSeconds = 0;
  double memoryBytes = 0;
  bool fits = false;
};

struct SearchOptions {
  StrategyRequest request;
  StrategySpace space;
  Objective objective = Objective::Throughput;
  int64_t top = 10; ///< The largest number of candidates in the result.
  /// The most candidates that are evaluated, or blocks that are measured. The
  /// most promising come first; the other candidates are only bounded.
  /// Baselines do not count.
  int64_t maxEvaluations = INT64_MAX;
  /// For a search whose winner is compared with a known plan. Both are values
  /// of the objective: a winner above `closeLookUpTo` is not evaluated exactly,
  /// and the search ends if the first evaluation is above `goesOnUpTo`.
  double closeLookUpTo = std::numeric_limits<double>::infinity();
  double goesOnUpTo = std::numeric_limits<double>::infinity();
  /// Whether the baselines are wanted.
  bool baselines = true;
  /// The request names one strategy. Its micro-batch size does not apply to the
  /// baselines; each baseline uses the best size for itself.
  bool freesBaselines = false;
  /// The winner is evaluated from the whole program even if folding is exact
  /// enough, because its plan will be written.
  bool confirmsWinner = false;
  /// Called between evaluations, on the thread that searches.
  std::function<void(const SearchProgress &)> progress;
};

struct SearchResult {
  /// The winner is first. Candidates that fit come first, sorted by the
  /// objective, then those that do not fit, then those that cannot be built. At
  /// most `top` candidates. If fewer were evaluated, pruned candidates with
  /// their bounds are added. Empty only if the request allows no strategy.
  std::vector<Candidate> candidates;
  std::vector<Baseline> baselines;
  /// What limits the winner: "compute", "memory", "communication over LEVEL",
  /// "pipeline bubble", "transfers to host memory", "transfers to disk",
  /// "launch overhead".
  std::string bindingConstraint;
  /// If memory limits the winner: the fastest plan that does not fit, and the
  /// memory that it needs. Otherwise empty.
  std::string bindingDetail;
  ModelTotals totals;
  double memoryLimitBytes = 0; ///< Feasibility::limitBytes.
  double seconds = 0;          ///< The duration of the search.
  int64_t considered = 0;
  int64_t pruned = 0;  ///< Proven worse by their bounds.
  int64_t skipped = 0; ///< Beyond maxEvaluations.
  /// The Pareto front of all evaluated candidates that fit.
  ParetoFront pareto;
  /// The baseline that the winner is compared with, and the evaluated plans on
  /// the path from the baseline to the winner. Empty if there is no such
  /// baseline, or if it is the winner.
  std::string changedFrom;
  std::vector<Change> changes;
  /// Why some devices are idle; empty if the plan uses all devices
  /// (IdleDevices.h).
  std::string idle;

  bool hasWinner() const { return !candidates.empty() && candidates[0].fits; }
};

/// Runs the search on all devices of `cluster`. A fixed strategy that does not
/// fit is still returned, with `fits` false; the caller handles this case.
SearchResult searchStrategies(const Cluster &cluster, Evaluator &evaluator,
                              const SearchOptions &options);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_SEARCH_H
