//===- CandidatePool.h - What a search has evaluated ------------*- C++ -*-===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_CANDIDATEPOOL_H
#define DPC_COST_MODEL_SEARCH_CANDIDATEPOOL_H

#include "cost-model/search/Feasibility.h"
#include "cost-model/search/Search.h"

namespace dpc::cost {

/// The input of one search. It does not change during the search.
struct SearchProblem {
  SearchProblem(const Cluster &cluster, Evaluator &evaluator,
                const SearchOptions &options)
      : cluster(cluster), evaluator(evaluator), options(options),
        totals(evaluator.totals()), feasibility(cluster) {}

  const Cluster &cluster;
  Evaluator &evaluator;
  const SearchOptions &options;
  ModelTotals totals;
  Feasibility feasibility;

  /// What the objective minimizes, in seconds or bytes.
  double value(double seconds, double bytes) const {
    return cost::valueOf(options.objective, seconds, bytes);
  }
  double valueOf(const Candidate &candidate) const {
    return cost::valueOf(options.objective, candidate.evaluation);
  }
  bool allows(const Strategy &strategy) const {
    return options.request.allows(strategy, options.space.globalBatch);
  }
  /// How many of the best candidates the search examines. This does not depend
  /// on `top` up to 10, so a user who asks for fewer candidates gets the same
  /// winner.
  size_t kept() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 10));
  }
  /// How many candidates are shown to the user.
  size_t shown() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 1));
  }
};

/// The groups in which candidates are sorted, the best first.
enum class CandidateKind { Fits, TooLarge, Rejected, NotEvaluated };
CandidateKind kindOf(const Candidate &candidate);

/// A candidate that was evaluated from the lowered program.
Candidate candidateOf(const SearchProblem &problem, const Strategy &strategy,
                      Evaluation evaluation);

/// A candidate that was estimated by formula.
Candidate estimatedCandidate(const SearchProblem &problem,
                             const Strategy &strategy);

/// Whether `a` is sorted before `b`. Candidates are sorted by kind, then by
/// value if they fit, or by memory if they are too large.
bool isBefore(const SearchProblem &problem, const Candidate &a,
              const Candidate &b);

/// Whether a composed evaluation is so close to the memory limit, or below it,
/// that the exact memory may fit.
bool mayFitNearLimit(const SearchProblem &problem, const Candidate &candidate);

/// The candidates that a search has evaluated so far, and the baselines.
class CandidatePool {
public:
  explicit CandidatePool(const SearchProblem &problem) : problem(problem) {}

  /// In the order of isBefore after sort().
  std::vector<Candidate> candidates;
  std::vector<Baseline> baselines;

  bool hasWinner() const { return !candidates.empty() && candidates[0].fits; }
  bool anyFits() const;
  void sort();
  /// The candidate with this strategy, or null.
  const Candidate *find(const Strategy &strategy) const;
  /// Whether `strategy` is evaluated. A baseline that has the strategy becomes
  /// a candidate.
  bool adoptEvaluated(const Strategy &strategy);
  /// The value of the worst candidate that fits and is shown; a new candidate
  /// must beat it to be shown. Infinite while fewer candidates than `shown()`
  /// fit.
  double worstShown() const;
  /// The value of the best candidate that fits; infinite if none fits.
  double best() const;
  /// The allowed candidate or baseline whose neighbours are evaluated next, or
  /// null. The time of a plan beyond its memory limit is increased for this
  /// comparison.
  const Candidate *bestToExtend() const;
  /// Replaces the evaluation of each baseline that has the strategy of
  /// `candidate`. Baselines that were only estimated change only if
  /// `replacesEstimates`.
  void updateBaselines(const Candidate &candidate, bool replacesEstimates);
  /// Adds a candidate that fits and is allowed to the Pareto front.
  void addToFront(const Candidate &candidate);
  /// The Pareto front of all candidates and baselines.
  ParetoFront takeFront();

private:
  const SearchProblem &problem;
  ParetoFront front;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_CANDIDATEPOOL_H
