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

/// What one search is asked. Nothing here changes during the search.
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
  /// How many of the best candidates the search examines. The user may ask to
  /// see fewer, which does not change what the search finds.
  size_t kept() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 10));
  }
  /// How many candidates the user sees.
  size_t shown() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 1));
  }
};

/// The groups in which candidates are sorted, the best first.
enum class CandidateKind { Fits, TooLarge, Rejected, NotEvaluated };
CandidateKind kindOf(const Candidate &candidate);

/// A candidate with an evaluation that was made over the IR.
Candidate candidateOf(const SearchProblem &problem, const Strategy &strategy,
                      Evaluation evaluation);

/// A candidate with an estimate by formula.
Candidate estimatedCandidate(const SearchProblem &problem,
                             const Strategy &strategy);

/// Whether `a` is sorted before `b`: by kind, plans that fit by their value,
/// plans that are too large by their memory.
bool isBefore(const SearchProblem &problem, const Candidate &a,
              const Candidate &b);

/// Whether the memory of a composed evaluation is so close to the limit, or
/// below it, that the true memory may fit.
bool mayFitNearLimit(const SearchProblem &problem, const Candidate &candidate);

/// The candidates that a search has evaluated so far, with the baselines.
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
  /// The value of the worst of the candidates that fit and are shown: what
  /// others must beat. Infinite while there is room for more.
  double worstShown() const;
  /// The value of the best candidate that fits; infinite where none does.
  double best() const;
  /// The allowed candidate or baseline whose neighbours are evaluated next, or
  /// null. A plan beyond its memory limit counts as slower than it is.
  const Candidate *bestToExtend() const;
  /// Gives baselines the evaluation of `candidate` where they have its strategy
  /// and, unless `replacesEstimates`, were evaluated themselves.
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
