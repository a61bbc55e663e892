//===- Changes.cpp - From a baseline to the winner ------------------------===//
#include "cost-model/search/Changes.h"

#include "cost-model/search/ConfirmWinner.h"

#include <algorithm>

namespace dpc::cost {

/// Returns the baseline to compare the winner with: Megatron-LM's layout or, if
/// this layout was not evaluated, the best baseline that fits. May be null.
static const Baseline *comparedBaseline(const SearchProblem &problem,
                                        const CandidatePool &pool) {
  auto isEvaluated = [](const Baseline &baseline) {
    return baseline.candidate.method != "formula" &&
           baseline.candidate.evaluation.rejected.empty();
  };
  const Baseline *best = nullptr;
  for (const Baseline &baseline : pool.baselines) {
    if (!isEvaluated(baseline))
      continue;
    if (baseline.name == "megatron-3d")
      return &baseline;
    if (baseline.candidate.fits &&
        (!best || problem.valueOf(baseline.candidate) <
                      problem.valueOf(best->candidate)))
      best = &baseline;
  }
  return best;
}

/// Each returned plan changes one more group of keys.
static std::vector<Strategy>
pathBetween(const Strategy &from, const Strategy &to, int64_t globalBatch) {
  std::vector<Strategy> path = {from};
  auto change = [&](auto isChanged) {
    Strategy next = path.back();
    visitKeys([&](const KeyInfo &key, auto field) {
      if (isChanged(key))
        field(next) = field(to);
    });
    // A micro-batch cannot be larger than a rank's share of the batch.
    int64_t local = (globalBatch + next.dp - 1) / next.dp;
    next.microBatch = std::min(next.microBatch, local);
    if (next.pp == 1)
      next.vpp = 1;
    if (next.tp == 1)
      next.sp = false;
    if (next != path.back())
      path.push_back(next);
  };
  for (int i = 0; i <= static_cast<int>(KeyGroup::Placement); ++i) {
    auto group = static_cast<KeyGroup>(i);
    if (group != KeyGroup::Other)
      change([&](const KeyInfo &key) { return key.group == group; });
    else
      visitKeys([&](const KeyInfo &other, auto) {
        change([&](const KeyInfo &key) {
          return key.group == group && key.name == other.name;
        });
      });
  }
  return path;
}

/// Returns the candidate with an exact evaluation of `strategy`, or null.
static const Candidate *findKnown(const std::vector<Candidate> &candidates,
                                  const Strategy &strategy) {
  for (const Candidate &candidate : candidates)
    if (candidate.strategy == strategy && candidate.method != "formula" &&
        candidate.skipped.empty() && !candidate.evaluation.isComposed)
      return &candidate;
  return nullptr;
}

/// Confirms the winner and evaluates the strategies of `path` that have no
/// exact evaluation. A plan of `path` that is better than the winner becomes
/// the winner.
static std::vector<Candidate> evaluatePath(const SearchProblem &problem,
                                           CandidatePool &pool,
                                           const std::vector<Strategy> &path) {
  std::vector<Strategy> unknown;
  for (const Strategy &strategy : path)
    if (!findKnown(pool.candidates, strategy))
      unknown.push_back(strategy);
  std::vector<Evaluation> answers;
  confirmWinner(problem, pool,
                [&] { answers = problem.evaluator.evaluateMany(unknown); });
  std::vector<Candidate> plans;
  for (const Strategy &strategy : path) {
    auto asked = std::find(unknown.begin(), unknown.end(), strategy);
    if (const Candidate *known = findKnown(pool.candidates, strategy))
      plans.push_back(*known);
    else
      plans.push_back(candidateOf(problem, strategy,
                                  std::move(answers[asked - unknown.begin()])));
  }
  for (const Candidate &plan : plans) {
    pool.updateBaselines(plan, /*replacesEstimates=*/true);
    // The exact evaluation replaces a composed one.
    auto same = std::find_if(
        pool.candidates.begin(), pool.candidates.end(),
        [&](const Candidate &c) { return c.strategy == plan.strategy; });
    if (same != pool.candidates.end())
      *same = plan;
    else if (plan.fits && problem.allows(plan.strategy))
      pool.candidates.push_back(plan);
  }
  pool.sort();
  confirmWinner(problem, pool);
  return plans;
}

ChangesToWinner findChanges(const SearchProblem &problem, CandidatePool &pool) {
  const Baseline *from = comparedBaseline(problem, pool);
  if (!pool.hasWinner() || !from)
    return {};
  std::vector<Candidate> plans;
  // Each round may find a better winner on the path.
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    Strategy winner = pool.candidates.front().strategy;
    if (from->candidate.strategy == winner)
      return {};
    plans = evaluatePath(problem, pool,
                         pathBetween(from->candidate.strategy, winner,
                                     problem.totals.globalBatch));
    if (pool.candidates.front().strategy == winner)
      break;
  }
  if (plans.back().strategy != pool.candidates.front().strategy)
    return {};
  ChangesToWinner result{from->name, {}};
  std::optional<Strategy> last;
  for (const Candidate &plan : plans) {
    const Evaluation &found = plan.evaluation;
    // The keys of a plan that cannot be built count as part of the next change.
    if (!found.rejected.empty())
      continue;
    // Other keys may change the placement, so each change includes it.
    Strategy placed = placedStrategy(plan.strategy, found.decisions);
    result.changes.push_back(
        {last ? differenceOf(*last, placed) : stringifyStrategy(placed),
         found.stepSeconds, found.memory.total(), plan.fits});
    last = std::move(placed);
  }
  return result;
}

} // namespace dpc::cost
