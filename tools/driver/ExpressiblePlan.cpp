//===- ExpressiblePlan.cpp - The best plan of an export target ------------===//
#include "tools/driver/ExpressiblePlan.h"

#include "cost-model/report/Report.h"

#include <algorithm>
#include <cmath>

namespace dpc {

using cost::Strategy;

double ExpressiblePlan::valueOf(double seconds, double bytes) const {
  return options.objective == "memory" ? bytes : seconds;
}

bool ExpressiblePlan::isWithin(double factor, const Plan &plan) const {
  const cost::Evaluation &winner = result.candidates.front().evaluation;
  return valueOf(plan.stepSeconds, plan.memoryBytes) <=
         factor * valueOf(winner.stepSeconds, winner.memory.total());
}

bool ExpressiblePlan::isBetter(const Plan &plan,
                               const std::optional<Plan> &than) const {
  return !than || valueOf(plan.stepSeconds, plan.memoryBytes) <
                      valueOf(than->stepSeconds, than->memoryBytes);
}

ExpressiblePlan::Plan
ExpressiblePlan::planOf(const cost::Candidate &candidate) {
  const cost::Evaluation &evaluation = candidate.evaluation;
  return {cost::placedStrategy(candidate.strategy, evaluation.decisions),
          evaluation.stepSeconds, evaluation.memory.total()};
}

void ExpressiblePlan::noteTooLarge(const Plan &plan,
                                   const cost::SearchResult &found) {
  smallest = cost::stringifyStrategy(plan.strategy, devices) + " needs " +
             cost::formatBytes(plan.memoryBytes) + " of " +
             cost::formatBytes(found.memoryLimitBytes);
}

std::optional<ExpressiblePlan::Plan>
ExpressiblePlan::evaluate(const Strategy &strategy) {
  CompileOptions asked = options;
  asked.microBatch = 0;
  asked.strategy = cost::stringifyStrategy(strategy, devices);
  auto found = search(asked, nullptr);
  if (!found || found->candidates.empty() ||
      !found->candidates.front().evaluation.rejected.empty())
    return std::nullopt;
  Plan plan = planOf(found->candidates.front());
  if (found->candidates.front().fits)
    return plan;
  if (smallest.empty())
    noteTooLarge(plan, *found);
  return std::nullopt;
}

/// Returns the best of these plans: the first candidate whose placement is
/// legal, and up to three candidates before it, evaluated again with a legal
/// placement.
std::optional<ExpressiblePlan::Plan>
ExpressiblePlan::bestOf(const cost::SearchResult &found) {
  constexpr int kMended = 3;
  std::optional<Plan> best;
  int mended = 0;
  for (const cost::Candidate &candidate : found.candidates) {
    if (!candidate.fits || !candidate.skipped.empty() ||
        candidate.method == "formula")
      continue;
    if (!exports::isExpressible(job, candidate.strategy, rules))
      continue;
    Plan plan = planOf(candidate);
    bool isLegal = exports::isExpressible(job, plan.strategy, rules);
    if (!isLegal || candidate.evaluation.isComposed) {
      if (++mended > kMended)
        continue;
      exports::Job other = job;
      other.strategy = plan.strategy;
      other.stageLayers.clear();
      other.cutsStagesFreely = true;
      exports::Legality legality = exports::checkLegality(other, rules);
      auto exact =
          evaluate(legality.ok() ? other.strategy
                                 : legality.nearest.value_or(other.strategy));
      if (!exact || !exports::isExpressible(job, exact->strategy, rules))
        continue;
      plan = std::move(*exact);
    }
    if (isBetter(plan, best))
      best = std::move(plan);
    if (isLegal)
      return best;
  }
  return best;
}

void ExpressiblePlan::improve(std::optional<Plan> &best,
                              const cost::SearchResult &found) {
  std::optional<Plan> next = bestOf(found);
  if (next && isBetter(*next, best))
    best = std::move(next);
}

/// Implements (E1) and (E2) of the header.
std::optional<ExpressiblePlan::Plan> ExpressiblePlan::bestLegal() {
  constexpr double kNear = 1.05;
  std::optional<Plan> best = bestOf(result);
  if (best && isWithin(kNear, *best))
    return best;
  std::vector<CompileOptions> asked = {options};
  if (options.strategy != "auto" || options.microBatch > 0) {
    asked.push_back(options);
    asked.back().strategy = "auto";
    asked.back().microBatch = 0;
  }
  for (const CompileOptions &each : asked) {
    auto found = searchLegal(each);
    if (!found)
      continue;
    improve(best, *found);
    if (best)
      return best;
    const auto &all = found->candidates;
    if (!all.empty() && all.front().evaluation.rejected.empty() &&
        all.front().skipped.empty()) {
      Plan plan = planOf(all.front());
      plan.strategy = all.front().strategy;
      noteTooLarge(plan, *found);
    }
  }
  return best;
}

Expected<cost::SearchResult>
ExpressiblePlan::searchLegal(const CompileOptions &asked) const {
  return search(asked, [this](const Strategy &strategy) {
    return exports::isExpressible(job, strategy, rules);
  });
}

/// (E4) of the header.
std::vector<int64_t> ExpressiblePlan::ranksToTry() const {
  constexpr size_t kMost = 2;
  int64_t nodes = devices / job.devicesPerNode, layers = job.model.layers;
  std::vector<int64_t> ranks;
  for (int64_t divisor = 3; divisor <= std::min(nodes, layers); divisor += 2) {
    if (layers % divisor != 0)
      continue;
    int64_t most = divisor;
    while (2 * most <= nodes)
      most *= 2;
    if (most < nodes)
      ranks.push_back(most * job.devicesPerNode);
  }
  std::ranges::sort(ranks, std::greater());
  ranks.resize(std::min(ranks.size(), kMost));
  return ranks;
}

std::optional<ExpressiblePlan::Plan> ExpressiblePlan::bestOfAll() {
  constexpr double kFar = 1.5;
  std::optional<Plan> best = bestLegal();
  if (options.strategy != "auto" || (best && isWithin(kFar, *best)))
    return best;
  CompileOptions asked = options;
  for (int64_t ranks : ranksToTry()) {
    asked.strategy = "ranks=" + std::to_string(ranks);
    if (auto found = searchLegal(asked))
      improve(best, *found);
  }
  return best;
}

static std::string comparedTo(double winner, double seconds) {
  double percent = 100 * (seconds / winner - 1);
  char buffer[64];
  if (std::abs(percent) < 0.05)
    return "as fast";
  std::snprintf(buffer, sizeof(buffer), "%.1f %% %s", std::abs(percent),
                percent > 0 ? "slower" : "faster");
  return buffer;
}

std::string ExpressiblePlan::describe(const Plan &plan) const {
  return "--strategy=" + cost::stringifyStrategy(plan.strategy, devices) +
         " (" + cost::formatSeconds(plan.stepSeconds) + " a step, " +
         comparedTo(result.candidates.front().evaluation.stepSeconds,
                    plan.stepSeconds) +
         ", " + cost::formatBytes(plan.memoryBytes) + ")";
}

std::string ExpressiblePlan::text(const exports::Legality &legality) {
  if (legality.isOfJob)
    return "";
  std::string words;
  std::optional<Plan> nearest;
  // If the user chose the strategy, the text also names a similar one.
  bool isFixed = result.considered == 1;
  if (isFixed && legality.nearest)
    nearest = evaluate(*legality.nearest);
  if (nearest && !exports::isExpressible(job, nearest->strategy, rules))
    nearest.reset();
  if (nearest)
    words = "; nearest: " + describe(*nearest);
  std::optional<Plan> best = bestOfAll();
  if (best && (!nearest || best->strategy != nearest->strategy))
    words += "; best that it can express: " + describe(*best);
  if (words.empty())
    words = "; no strategy that it can express fits" +
            (smallest.empty() ? "" : ": " + smallest);
  return words;
}

} // namespace dpc
