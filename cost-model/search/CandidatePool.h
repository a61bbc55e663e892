//===- CandidatePool.h - What a search has evaluated ------------*- C++ -*-===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/ErrorModel.h"
#include "cost-model/search/Feasibility.h"
#include "cost-model/search/GemmTimes.h"
#include "cost-model/search/Search.h"

#include <algorithm>

namespace dpc::cost {

/// The input of one search, which does not change during the search.
struct SearchProblem {
  SearchProblem(const Cluster &cluster, Evaluator &evaluator,
                const SearchOptions &options)
      : cluster(cluster), evaluator(evaluator), options(options),
        totals(evaluator.totals()), feasibility(cluster),
        gemmTimes(cluster, totals) {}

  const Cluster &cluster;
  Evaluator &evaluator;
  const SearchOptions &options;
  ModelTotals totals;
  Feasibility feasibility;
  GemmTimes gemmTimes;

  double value(double seconds, double bytes) const {
    return cost::valueOf(options.objective, seconds, bytes);
  }
  double valueOf(const Candidate &candidate) const {
    return cost::valueOf(options.objective, candidate.evaluation);
  }
  bool allows(const Strategy &strategy) const {
    return options.request.allows(strategy, options.space.globalBatch);
  }
  /// Returns how many of the best candidates the search examines. Any `top` up
  /// to 10 gives the same number, so that the winner does not depend on it.
  size_t kept() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 10));
  }
  /// Returns how many candidates are shown to the user.
  size_t shown() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 1));
  }
};

/// Candidates are sorted by kind, the best kind first.
enum class CandidateKind { Fits, TooLarge, Rejected, NotEvaluated };
CandidateKind kindOf(const Candidate &candidate);

Candidate candidateOf(const SearchProblem &problem, const Strategy &strategy,
                      Evaluation evaluation);

Candidate estimatedCandidate(const SearchProblem &problem,
                             const Strategy &strategy);

/// Returns whether `a` is sorted before `b`. Candidates are sorted by kind,
/// then by value if they fit, or by memory if they are too large.
bool isBefore(const SearchProblem &problem, const Candidate &a,
              const Candidate &b);

/// Returns whether the memory of a composed evaluation is so low that the exact
/// memory may fit.
bool mayFitNearLimit(const SearchProblem &problem, const Candidate &candidate);

class CandidatePool {
public:
  explicit CandidatePool(const SearchProblem &problem) : problem(problem) {}

  /// In the order of isBefore after sort().
  std::vector<Candidate> candidates;
  std::vector<Baseline> baselines;

  /// Replaces a candidate by its exact evaluation.
  void confirm(Candidate &candidate, Evaluation exact);
  /// Corrects composed evaluations by the errors of those that exact
  /// evaluations have replaced (ErrorModel.h).
  void correctComposed();
  /// Returns by how much the exact evaluation of a composed candidate is
  /// expected to be better than the best exact one that fits; infinite if there
  /// is none.
  double gainOf(const Candidate &candidate);
  bool hasWinner() const { return !candidates.empty() && candidates[0].fits; }
  bool anyFits() const;
  void sort();
  /// Returns the candidate with this strategy, or null.
  const Candidate *find(const Strategy &strategy) const;
  /// Returns whether `strategy` was evaluated. If a baseline has the strategy,
  /// it becomes a candidate.
  bool adoptEvaluated(const Strategy &strategy);
  /// Returns the value that a new candidate must beat to be shown: the worst
  /// value of the candidates that fit and are shown. Infinite while fewer than
  /// `shown()` candidates fit.
  double worstShown() const;
  /// Returns the value of the best candidate that fits; infinite if none fits.
  double best() const;
  /// Returns the same, or the value that the search has to beat if it is less.
  double leastValue() const {
    return std::min(best(), problem.options.valueToBeat);
  }
  /// Returns the allowed candidate or baseline whose neighbours are evaluated
  /// next, or null. A plan that exceeds the memory limit counts as slower than
  /// it is. If `hasStages` is given, only considers plans with several stages,
  /// or without.
  const Candidate *
  bestToExtend(std::optional<bool> hasStages = std::nullopt) const;
  /// Stores `candidate` in each baseline that has the same strategy. Estimated
  /// baselines only change if `replacesEstimates`.
  void updateBaselines(const Candidate &candidate, bool replacesEstimates);
  /// Adds a candidate to the Pareto front if it fits and is allowed.
  void addToFront(const Candidate &candidate);
  ParetoFront takeFront();

private:
  const SearchProblem &problem;
  ParetoFront front;
  Corrections errors{kErrorsOfCompositions};
};

} // namespace dpc::cost
