//===- ConfirmWinner.cpp - Exact evaluations of the winner ----------------===//
#include "cost-model/search/ConfirmWinner.h"

#include "runtime/base/Parallel.h"

#include <algorithm>
#include <cassert>
#include <cmath>

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

/// Returns the candidates to evaluate next: the first one, unless it is exact,
/// and then, up to `most`, those that are expected to be better than the best
/// exact one, the most promising first. If the first one does not fit, the
/// others are those whose exact memory may fit.
static std::vector<size_t> nextToSettle(const SearchProblem &problem,
                                        CandidatePool &pool, size_t most) {
  constexpr double kLeastGain = 0.001; // of the first candidate's value
  constexpr size_t kAtOnce = 2;
  const std::vector<Candidate> &candidates = pool.candidates;
  std::vector<size_t> next;
  std::vector<std::pair<double, size_t>> others;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &candidate = candidates[i];
    if (!isInexact(candidate))
      continue;
    const Candidate &first = candidates.front();
    double value = problem.valueOf(candidate);
    if (i == 0)
      next.push_back(i);
    else if (!first.fits && mayFitNearLimit(problem, candidate))
      others.emplace_back(value, i);
    else if (double gain = first.fits ? pool.gainOf(candidate) : 0;
             gain > kLeastGain * problem.valueOf(first))
      others.emplace_back(std::isfinite(gain) ? -gain : value, i);
  }
  std::sort(others.begin(), others.end());
  // The second one is often needed as well, because more compositions are too
  // fast than too slow.
  size_t room = most > 0 || !next.empty() ? kAtOnce - next.size() : 0;
  for (size_t k = 0; k < std::min(room, others.size()); ++k)
    next.push_back(others[k].second);
  return next;
}

void settle(const SearchProblem &problem, CandidatePool &pool, size_t most) {
  size_t evaluated = 0;
  for (pool.sort(); !isFarBehind(problem, pool); pool.sort()) {
    std::vector<size_t> next =
        nextToSettle(problem, pool, most - std::min(most, evaluated));
    if (next.empty())
      return;
    evaluated += next.size();
    std::vector<Strategy> strategies;
    strategies.reserve(next.size());
    for (size_t i : next)
      strategies.push_back(pool.candidates[i].strategy);
    std::vector<Evaluation> answers =
        problem.evaluator.evaluateMany(strategies);
    for (size_t k = 0; k < next.size(); ++k)
      pool.confirm(pool.candidates[next[k]], std::move(answers[k]));
    pool.correctComposed();
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
