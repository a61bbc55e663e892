//===- NearestPlan.cpp - A plan that a target of --emit accepts -----------===//
#include "tools/driver/NearestPlan.h"

#include "cost-model/report/Report.h"

#include <cmath>

namespace dpc {

using cost::Candidate;

cost::StrategyRequest NearestPlan::request() const {
  auto request = cost::parseStrategy(options.strategy, devices);
  return request ? *request : cost::StrategyRequest();
}

bool NearestPlan::isFixed() const { return request().isFixed(); }

bool NearestPlan::isLegal(const Candidate &candidate) const {
  return candidate.fits && candidate.skipped.empty() &&
         candidate.method != "formula" &&
         exports::isExpressible(
             job,
             cost::placedStrategy(candidate.strategy,
                                  candidate.evaluation.decisions),
             rules);
}

std::optional<NearestPlan::Plan>
NearestPlan::best(const std::string &strategy) const {
  auto found = search(strategy);
  if (!found || !found->search.hasWinner() ||
      !isLegal(found->search.candidates.front()))
    return std::nullopt;
  return Plan{std::move(found->search.candidates.front()),
              std::move(found->used)};
}

/// (N1) of the header. Composed evaluations are replaced by exact ones.
std::optional<NearestPlan::Plan> NearestPlan::firstCandidate() const {
  int64_t ranks = result.candidates.front().strategy.ranks();
  for (const Candidate &candidate : result.candidates) {
    if (!isLegal(candidate) || candidate.strategy.ranks() != ranks)
      continue;
    if (!candidate.evaluation.isComposed)
      return Plan{candidate, used};
    if (auto exact = best(cost::stringifyStrategy(candidate.strategy, devices)))
      return exact;
  }
  return std::nullopt;
}

std::optional<NearestPlan::Plan>
NearestPlan::mended(const exports::Legality &legality) const {
  return legality.nearest
             ? best(cost::stringifyStrategy(*legality.nearest, devices))
             : std::nullopt;
}

std::optional<NearestPlan::Plan>
NearestPlan::find(const exports::Legality &legality) const {
  std::optional<Plan> plan = firstCandidate();
  bool mayMend = legality.nearest && options.microBatch == 0 &&
                 request().allows(*legality.nearest, job.globalBatch);
  if (!plan && mayMend)
    plan = mended(legality);
  return plan ? plan : best(options.strategy);
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

std::string NearestPlan::describe(const Plan &plan) const {
  const cost::Evaluation &evaluation = plan.candidate.evaluation;
  return "--strategy=" +
         cost::stringifyStrategy(cost::placedStrategy(plan.candidate.strategy,
                                                      evaluation.decisions),
                                 devices) +
         " (" + cost::formatSeconds(evaluation.stepSeconds) + " a step, " +
         comparedTo(result.candidates.front().evaluation.stepSeconds,
                    evaluation.stepSeconds) +
         ", " + cost::formatBytes(evaluation.memory.total()) + ")";
}

} // namespace dpc
