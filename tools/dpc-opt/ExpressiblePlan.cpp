//===- ExpressiblePlan.cpp - What a target of exports takes ---------------===//
#include "tools/dpc-opt/ExpressiblePlan.h"

#include "cost-model/Report.h"

#include <cmath>

namespace dpc {

using cost::Strategy;

double ExpressiblePlan::valueOf(double seconds, double bytes) const {
  return options.objective == "memory" ? bytes : seconds;
}

/// Whether a search would hardly find anything better.
bool ExpressiblePlan::isNear(const Plan &plan) const {
  constexpr double kNear = 1.05;
  const cost::Evaluation &winner = result.candidates.front().evaluation;
  return valueOf(plan.stepSeconds, plan.memoryBytes) <=
         kNear * valueOf(winner.stepSeconds, winner.memory.total());
}

/// Of one strategy, with all that it names; nothing where it does not fit.
std::optional<ExpressiblePlan::Plan>
ExpressiblePlan::evaluate(const Strategy &strategy) {
  CompileOptions asked = options;
  asked.microBatch = 0;
  asked.strategy = exports::strategyText(strategy, devices);
  auto found = search(asked, nullptr);
  if (!found || found->candidates.empty() ||
      !found->candidates.front().evaluation.rejected.empty())
    return std::nullopt;
  const cost::Candidate &candidate = found->candidates.front();
  Plan plan{cost::placedStrategy(candidate.strategy, candidate.evaluation),
            candidate.evaluation.stepSeconds,
            candidate.evaluation.memory.total()};
  if (candidate.fits)
    return plan;
  if (smallest.empty())
    smallest = exports::strategyText(plan.strategy, devices) + " needs " +
               cost::formatBytes(plan.memoryBytes) + " of " +
               cost::formatBytes(found->memoryLimitBytes);
  return std::nullopt;
}

/// The first that is legal as it was placed, or one before it that is faster
/// even as the rules have it.
std::optional<ExpressiblePlan::Plan>
ExpressiblePlan::bestOf(const cost::SearchResult &found) {
  constexpr int kMended = 3;
  std::optional<Plan> best;
  int mended = 0;
  for (const cost::Candidate &candidate : found.candidates) {
    if (!candidate.fits || !candidate.skipped.empty() ||
        candidate.method == "formula")
      continue;
    const cost::Evaluation &evaluation = candidate.evaluation;
    Plan plan{cost::placedStrategy(candidate.strategy, evaluation),
              evaluation.stepSeconds, evaluation.memory.total()};
    if (!exports::isExpressible(job, candidate.strategy, rules))
      continue;
    bool isLegal = exports::isExpressible(job, plan.strategy, rules);
    if (!isLegal || evaluation.isComposed) {
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
    bool isBetter = !best || valueOf(plan.stepSeconds, plan.memoryBytes) <
                                 valueOf(best->stepSeconds, best->memoryBytes);
    if (isBetter)
      best = std::move(plan);
    if (isLegal)
      return best;
  }
  return best;
}

/// (E1) and (E2) of the header.
std::optional<ExpressiblePlan::Plan> ExpressiblePlan::bestOfAll() {
  std::optional<Plan> best = bestOf(result);
  if (best && isNear(*best))
    return best;
  std::vector<CompileOptions> asked = {options};
  if (options.strategy != "auto" || options.microBatch > 0) {
    asked.push_back(options);
    asked.back().strategy = "auto";
    asked.back().microBatch = 0;
  }
  for (const CompileOptions &each : asked) {
    auto found = search(each, [&](const Strategy &strategy) {
      return exports::isExpressible(job, strategy, rules);
    });
    if (!found)
      continue;
    std::optional<Plan> next = bestOf(*found);
    if (!best || (next && valueOf(next->stepSeconds, next->memoryBytes) <
                              valueOf(best->stepSeconds, best->memoryBytes)))
      best = next ? next : best;
    if (best)
      return best;
    const auto &all = found->candidates;
    if (!all.empty() && all.front().evaluation.rejected.empty() &&
        all.front().skipped.empty())
      smallest = exports::strategyText(all.front().strategy, devices) +
                 " needs " +
                 cost::formatBytes(all.front().evaluation.memory.total()) +
                 " of " + cost::formatBytes(found->memoryLimitBytes);
  }
  return best;
}

/// "3.4 % slower"
static std::string comparedTo(double winner, double seconds) {
  double percent = 100 * (seconds / winner - 1);
  char buffer[64];
  if (std::abs(percent) < 0.05)
    return "as fast";
  std::snprintf(buffer, sizeof(buffer), "%.1f %% %s", std::abs(percent),
                percent > 0 ? "slower" : "faster");
  return buffer;
}

/// "--strategy=... (19.9 s a step, 3.4 % slower, 57.2 GiB)"
std::string ExpressiblePlan::describe(const Plan &plan) const {
  return "--strategy=" + exports::strategyText(plan.strategy, devices) + " (" +
         cost::formatSeconds(plan.stepSeconds) + " a step, " +
         comparedTo(result.candidates.front().evaluation.stepSeconds,
                    plan.stepSeconds) +
         ", " + cost::formatBytes(plan.memoryBytes) + ")";
}

std::string ExpressiblePlan::text(const exports::Legality &legality) {
  if (legality.isOfJob)
    return "";
  std::string words;
  // Who asked for one strategy wants one like it.
  bool isAlone = result.considered == 1;
  std::optional<Plan> nearest;
  if (isAlone && legality.nearest)
    nearest = evaluate(*legality.nearest);
  if (nearest && !exports::isExpressible(job, nearest->strategy, rules))
    nearest.reset();
  if (nearest)
    words = "; nearest: " + describe(*nearest);
  std::optional<Plan> best = bestOfAll();
  if (best && (!nearest || best->strategy != nearest->strategy))
    words += "; best that it takes: " + describe(*best);
  if (words.empty())
    words = "; of the strategies that it takes none fits" +
            (smallest.empty() ? "" : ": " + smallest);
  return words;
}

} // namespace dpc
