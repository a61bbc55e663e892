//===- ConfirmWinner.cpp - Exact evaluations of the winner ----------------===//
#include "cost-model/search/ConfirmWinner.h"

#include "runtime/base/Parallel.h"

#include <algorithm>
#include <cassert>

namespace dpc::cost {

/// Returns whether the winner is so slow that its exact time does not matter.
static bool isFarBehind(const SearchProblem &problem,
                        const CandidatePool &pool) {
  return pool.hasWinner() && problem.valueOf(pool.candidates.front()) >
                                 problem.options.closeLookUpTo;
}

static bool isInexact(const Candidate &candidate) {
  return candidate.evaluation.isComposed &&
         candidate.evaluation.rejected.empty();
}

/// Returns whether an exact evaluation of `candidate` may be better than the
/// first candidate. `evaluated` candidates were evaluated so far.
static bool mayWin(const SearchProblem &problem, const CandidatePool &pool,
                   const Candidate &candidate, size_t evaluated, size_t most) {
  // For interleaved schedules, composed times are too long, because they
  // include messages that are sent ahead. For other candidates, the error is
  // unknown until a similar one is evaluated. So a few of both that seem slower
  // are evaluated.
  constexpr double kFaster = 0.998, kSlower = 1.03;
  constexpr size_t kMostSlower = 4;
  // Many composed memories are equal, and differ by this when exact.
  constexpr double kLarger = 1.06;
  if (!isInexact(candidate))
    return false;
  const Candidate &first = pool.candidates.front();
  if (&candidate == &first)
    return true;
  bool mayBeTooSlow =
      evaluated < kMostSlower &&
      (candidate.strategy.vpp > 1 || !pool.knowsErrorOf(candidate.strategy));
  double factor = problem.options.objective == Objective::Memory ? kLarger
                  : mayBeTooSlow                                 ? kSlower
                                                                 : kFaster;
  return evaluated < most && mayFitNearLimit(problem, candidate) &&
         (!first.fits ||
          problem.valueOf(candidate) < factor * problem.valueOf(first));
}

void settle(const SearchProblem &problem, CandidatePool &pool, size_t most) {
  constexpr size_t kAtOnce = 2;
  std::vector<Candidate> &candidates = pool.candidates;
  size_t evaluated = 0;
  pool.sort();
  while (!isFarBehind(problem, pool)) {
    std::vector<size_t> next;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (mayWin(problem, pool, candidates[i], evaluated, most))
        next.push_back(i);
    // The first candidate comes first, then the fastest other candidates.
    std::stable_sort(next.begin(), next.end(), [&](size_t a, size_t b) {
      return std::pair(a > 0, problem.valueOf(candidates[a])) <
             std::pair(b > 0, problem.valueOf(candidates[b]));
    });
    if (next.empty())
      return;
    next.resize(std::min(next.size(), kAtOnce));
    evaluated += next.size();
    // Composed times are more often too short than too long, so the second
    // candidate is often needed as well.
    if (next.size() == 1 && next[0] == 0 && candidates.size() > 1 &&
        isInexact(candidates[1]) && mayFitNearLimit(problem, candidates[1]))
      next.push_back(1);
    std::vector<Strategy> strategies;
    strategies.reserve(next.size());
    for (size_t i : next)
      strategies.push_back(candidates[i].strategy);
    std::vector<Evaluation> answers =
        problem.evaluator.evaluateMany(strategies);
    for (size_t k = 0; k < next.size(); ++k)
      pool.confirm(candidates[next[k]], std::move(answers[k]));
    pool.correctComposed();
    pool.sort();
  }
}

bool anyFitsConfirmed(const SearchProblem &problem, CandidatePool &pool) {
  settle(problem, pool, 0);
  return pool.anyFits();
}

void confirmWinner(const SearchProblem &problem, CandidatePool &pool,
                   std::function<void()> meanwhile) {
  constexpr double kRough = 0.95; // Margin for errors of rough memory.
  for (settle(problem, pool, 0);
       pool.hasWinner() && !isFarBehind(problem, pool);
       settle(problem, pool, 0)) {
    Candidate &winner = pool.candidates.front();
    const Evaluation &evaluation = winner.evaluation;
    bool mayNotFit =
        evaluation.isRough &&
        evaluation.memory.total() > kRough * problem.feasibility.limitBytes();
    if (!evaluation.isFolded || !(problem.options.confirmsWinner || mayNotFit))
      break;
    Evaluation whole;
    parallelFor(meanwhile ? 2 : 1, 1, [&](size_t i) {
      if (i == 0)
        whole = problem.evaluator.describe(winner.strategy);
      else
        meanwhile();
    });
    meanwhile = nullptr;
    pool.confirm(winner, std::move(whole));
    pool.updateBaselines(winner, /*replacesEstimates=*/false);
  }
  if (meanwhile)
    meanwhile();
}

} // namespace dpc::cost
