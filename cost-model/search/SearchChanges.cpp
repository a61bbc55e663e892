//===- SearchChanges.cpp - From a well-known plan to the winner -----------===//
//
// The keys in which the winner differs from the baseline that it is compared
// with are changed group by group, and every plan between the two is evaluated
// as they are: what a change brings is measured, and what all bring adds up.
//
//===----------------------------------------------------------------------===//

#include "cost-model/search/StrategySearch.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dpc::cost {

/// Megatron's layout; where that was not evaluated, the best that fits.
const Baseline *StrategySearch::wellKnownPlan() const {
  auto isEvaluated = [](const Baseline &baseline) {
    return baseline.candidate.method != "formula" &&
           baseline.candidate.evaluation.rejected.empty();
  };
  const Baseline *best = nullptr;
  for (const Baseline &baseline : result.baselines) {
    if (!isEvaluated(baseline))
      continue;
    if (baseline.name == "megatron-3d")
      return &baseline;
    if (baseline.candidate.fits &&
        (!best || valueOf(baseline.candidate) < valueOf(best->candidate)))
      best = &baseline;
  }
  return best;
}

/// The plans from `from` to `to`, each with one more group of keys changed.
static std::vector<Strategy>
pathBetween(const Strategy &from, const Strategy &to, int64_t globalBatch) {
  std::vector<Strategy> path = {from};
  auto change = [&](auto... keys) {
    Strategy next = path.back();
    ((next.*keys = to.*keys), ...);
    // What degrees leave of a rank's share.
    int64_t local = (globalBatch + next.dp - 1) / next.dp;
    next.microBatch = std::min(next.microBatch, local);
    if (next.pp == 1)
      next.vpp = 1;
    if (next.tp == 1)
      next.sp = false;
    if (next != path.back())
      path.push_back(next);
  };
  change(&Strategy::dp, &Strategy::tp, &Strategy::pp,
         &Strategy::cp, &Strategy::cpKind, &Strategy::ep);
  change(&Strategy::sp);
  change(&Strategy::zero, &Strategy::hybridShard);
  change(&Strategy::schedule, &Strategy::vpp);
  change(&Strategy::microBatch);
  change(&Strategy::recompute);
  change(&Strategy::offload, &Strategy::offloadTo);
  change(&Strategy::batchShares);
  change(&Strategy::placement);
  return path;
}

/// What is known exactly of a strategy, or nothing.
static const Candidate *findKnown(const std::vector<Candidate> &candidates,
                                  const Strategy &strategy) {
  for (const Candidate &candidate : candidates)
    if (candidate.strategy == strategy && candidate.method != "formula" &&
        candidate.skipped.empty() && !candidate.evaluation.isComposed)
      return &candidate;
  return nullptr;
}

/// Evaluates what is not known of `path`, and confirms the winner. What turns
/// out to be better than it is the winner.
std::vector<Candidate>
StrategySearch::evaluatePath(const std::vector<Strategy> &path) {
  std::vector<Strategy> unknown;
  for (const Strategy &strategy : path)
    if (!findKnown(result.candidates, strategy))
      unknown.push_back(strategy);
  std::vector<Evaluation> answers;
  confirmWinner([&] { answers = evaluator.evaluateMany(unknown); });
  std::vector<Candidate> plans;
  for (const Strategy &strategy : path) {
    Candidate plan;
    plan.strategy = strategy;
    auto asked = std::find(unknown.begin(), unknown.end(), strategy);
    if (const Candidate *known = findKnown(result.candidates, strategy))
      plan = *known;
    else
      take(plan, std::move(answers[asked - unknown.begin()]));
    plans.push_back(std::move(plan));
  }
  for (const Candidate &plan : plans) {
    for (Baseline &baseline : result.baselines)
      if (baseline.candidate.strategy == plan.strategy)
        baseline.candidate = plan;
    // What was made of pieces is known better now.
    auto same = std::find_if(
        result.candidates.begin(), result.candidates.end(),
        [&](const Candidate &c) { return c.strategy == plan.strategy; });
    if (same != result.candidates.end())
      *same = plan;
    else if (plan.fits &&
             options.request.allows(plan.strategy, options.space.globalBatch))
      result.candidates.push_back(plan);
  }
  sortAll();
  confirmWinner();
  return plans;
}

void StrategySearch::findChanges() {
  const Baseline *from = wellKnownPlan();
  if (!result.hasWinner() || !from)
    return;
  std::vector<Candidate> plans;
  // A plan on the way may be the winner then.
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    Strategy winner = result.candidates.front().strategy;
    if (from->candidate.strategy == winner)
      return;
    plans = evaluatePath(pathBetween(from->candidate.strategy, winner,
                                     result.totals.globalBatch));
    if (result.candidates.front().strategy == winner)
      break;
  }
  if (plans.back().strategy != result.candidates.front().strategy)
    return;
  result.changedFrom = from->name;
  std::optional<Strategy> last;
  for (const Candidate &plan : plans) {
    const Evaluation &found = plan.evaluation;
    // A plan that cannot be built is one with the next change.
    if (!found.rejected.empty())
      continue;
    // With the placement that was found for it, which other keys may change.
    Strategy placed = placedStrategy(plan.strategy, found.decisions);
    result.changes.push_back(
        {last ? differenceOf(*last, placed) : stringifyStrategy(placed),
         found.stepSeconds, found.memory.total(), plan.fits});
    last = std::move(placed);
  }
}

} // namespace dpc::cost
