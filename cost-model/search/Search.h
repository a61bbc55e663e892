//===- Search.h - The outer loop over strategies ----------------*- C++ -*-===//
//
// The search evaluates candidates through an Evaluator and keeps the best ones:
//   * SearchSpace.h lists the candidates, and Evaluator::bound bounds them.
//   * BranchAndBound.h evaluates candidates in the order of their estimates
//     (FormulaEstimate.h). If candidates share segments (Evaluator::blockOf),
//     BlockSearch.h composes all evaluations from a few measurements instead.
//   * BaselineSearch.h evaluates the baselines.
//   * ConfirmWinner.h evaluates the best candidates exactly.
//   * Changes.h and Explain.h explain why the winner wins.
//
// A candidate is pruned when its bounds prove that it cannot be shown:
//   (P1) its memory bound exceeds the usable memory of the largest device, or
//   (P2) its time bound exceeds the time of the last of the `top` best
//        candidates that fit.
// Bounds never exceed the true values, so pruning never changes the winner.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluator.h"
#include "cost-model/search/ParetoFront.h"

#include <functional>
#include <limits>

namespace dpc::cost {

enum class Objective { Throughput, Memory };

/// Parses "throughput", "latency", "robust" or "memory". Throughput and latency
/// are the same objective, because the batch of a step is fixed. The robust
/// plan is chosen among the plans of the highest throughput.
std::optional<Objective> symbolizeObjective(std::string_view name);

/// Returns the value that `objective` minimizes: the step's seconds, or the
/// bytes of the fullest device.
inline double valueOf(Objective objective, double seconds, double bytes) {
  return objective == Objective::Memory ? bytes : seconds;
}
inline double valueOf(Objective objective, const Evaluation &evaluation) {
  return valueOf(objective, evaluation.stepSeconds, evaluation.memory.total());
}

struct Candidate {
  Strategy strategy;
  Evaluation evaluation;
  bool fits = false;
  /// How the evaluation was made: "formula" for estimates, "pieces" for
  /// composed evaluations, "folded" for folded ones, "graph" for evaluations of
  /// the whole program.
  std::string method = "graph";
  /// What was composed, before an exact evaluation or a correction replaced it;
  /// 0 if nothing was.
  double composedSeconds = 0, composedBytes = 0;
  /// One line that says why the candidate was not chosen; empty for the winner.
  std::string why;
  /// One line that says why the candidate was only estimated although nothing
  /// excludes it; empty for all other candidates.
  std::string skipped;
};

/// A default strategy to compare with, evaluated or rejected.
struct Baseline {
  std::string name; ///< single, ddp, zero1, zero2, zero3, megatron-3d.
  Candidate candidate;
};

struct SearchProgress {
  int64_t considered = 0;
  int64_t done = 0; ///< Evaluated, composed or excluded.
  /// The value of the best candidate that fits (see valueOf).
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
  /// The largest number of candidates that are evaluated, or of blocks that are
  /// measured, starting with the most promising. The other candidates are only
  /// bounded. Baselines do not count.
  int64_t maxEvaluations = INT64_MAX;
  /// The value of a plan that is known. Only better plans are searched for, but
  /// the first plan that fits is always found.
  double valueToBeat = std::numeric_limits<double>::infinity();
  /// Limits for a search whose winner is compared with a known plan, as values
  /// of the objective. A winner above `closeLookUpTo` is not evaluated exactly,
  /// and the search ends if the first evaluation is above `goesOnUpTo`.
  double closeLookUpTo = std::numeric_limits<double>::infinity();
  double goesOnUpTo = std::numeric_limits<double>::infinity();
  bool baselines = true;
  /// Whether each baseline uses its best micro-batch size instead of the
  /// requested size. True if the request names one strategy.
  bool freesBaselines = false;
  /// Whether the winner is evaluated from the whole program even if a folded
  /// evaluation is exact enough. True if the winner's plan will be written.
  bool confirmsWinner = false;
  /// Called between evaluations by the thread that runs the search.
  std::function<void(const SearchProgress &)> progress;
};

struct SearchResult {
  /// The candidates that fit, sorted by the objective (the winner is first),
  /// then the candidates that do not fit, then those that cannot be built; at
  /// most `top`. If fewer were evaluated, pruned candidates with their bounds
  /// follow. Empty only if the request allows no strategy.
  std::vector<Candidate> candidates;
  std::vector<Baseline> baselines;
  /// The resource that limits the winner: "compute", "memory", "communication
  /// over LEVEL", "pipeline bubble", "transfers to host memory", "transfers to
  /// disk", or "launch overhead".
  std::string bindingConstraint;
  /// If memory limits the winner: the fastest plan that does not fit, and the
  /// memory that it needs. Otherwise empty.
  std::string bindingDetail;
  ModelTotals totals;
  double memoryLimitBytes = 0;
  /// The share of the usable memory that the limits leave free (Headroom.h).
  double headroom = 0;
  double seconds = 0;
  int64_t considered = 0;
  int64_t pruned = 0;  ///< Worse than the winner by their bounds.
  int64_t skipped = 0; ///< Not evaluated because of maxEvaluations.
  ParetoFront pareto;
  /// The baseline that the winner is compared with, and the plans on the path
  /// from this baseline to the winner. Empty if there is no baseline, or if the
  /// baseline wins.
  std::string changedFrom;
  std::vector<Change> changes;
  /// If every evaluated strategy with several micro-batches was rejected, why
  /// the first one was; else "".
  std::string splitsRejected;
  /// Why the plan leaves devices idle (IdleDevices.h), or "".
  std::string idle;

  bool hasWinner() const { return !candidates.empty() && candidates[0].fits; }
};

/// The effort of one search or of several.
struct SearchCounts {
  double seconds = 0;
  int64_t considered = 0, pruned = 0, skipped = 0;

  void add(const SearchResult &result);
  void writeTo(SearchResult &result) const;
};

/// Runs the search on all devices of `cluster`. If a fixed strategy does not
/// fit, the result has it with `fits` false.
SearchResult searchStrategies(const Cluster &cluster, Evaluator &evaluator,
                              const SearchOptions &options);

} // namespace dpc::cost
