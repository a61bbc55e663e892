//===- BetterPlan.cpp - What is better than the present plan ----------===//
#include "cost-model/search/BetterPlan.h"

#include "cost-model/report/Report.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>

namespace dpc::cost {

BetterPlan betterPlan(const SearchResult &asked, const SearchResult &free,
                      Objective objective, int64_t devices) {
  // Two evaluations of the same strategy may differ by rounding.
  constexpr double kRounding = 1e-3;
  BetterPlan better;
  better.clusterDevices = devices;
  better.considered = free.considered;
  better.searchSeconds = free.seconds;
  const Evaluation *present =
      asked.hasWinner() ? &asked.candidates.front().evaluation : nullptr;
  if (present) {
    better.askedSeconds = present->stepSeconds;
    better.askedBytes = present->memory.total();
  }
  if (!free.hasWinner())
    return better;
  const Candidate &winner = free.candidates.front();
  if (present && valueOf(objective, winner.evaluation) >=
                     (1 - kRounding) * valueOf(objective, *present))
    return better;
  better.strategy =
      placedStrategy(winner.strategy, winner.evaluation.decisions);
  better.stepSeconds = winner.evaluation.stepSeconds;
  better.memoryBytes = winner.evaluation.memory.total();
  better.bindingConstraint = free.bindingConstraint;
  return better;
}

/// "23.1 % faster"
static std::string change(double before, double after, const char *less,
                          const char *more) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.1f %% %s",
                100 * std::abs(1 - after / before),
                after <= before ? less : more);
  return buffer;
}

std::string betterPlanText(const BetterPlan &better) {
  std::string among =
      " among " + std::to_string(better.considered) + " strategies";
  bool isKnown = better.askedSeconds > 0;
  if (!better.strategy)
    return isKnown ? "nothing better was found" + among
                   : "nothing that fits was found" + among;
  return std::string(isKnown ? "better" : "what fits") + ": --strategy=" +
         stringifyStrategy(*better.strategy, better.clusterDevices) + ", " +
         formatSeconds(better.stepSeconds) + " a step" +
         (isKnown ? " (" +
                        change(better.askedSeconds, better.stepSeconds, "less",
                               "more") +
                        " than " + formatSeconds(better.askedSeconds) + ")"
                  : "") +
         ", " + formatBytes(better.memoryBytes) +
         (isKnown ? " (" +
                        change(better.askedBytes, better.memoryBytes, "less",
                               "more") +
                        ")"
                  : "") +
         ", bound by " + better.bindingConstraint + "; the best" + among;
}

nlohmann::ordered_json betterPlanToJson(const BetterPlan &better) {
  nlohmann::ordered_json json = {{"strategy", nullptr},
                                 {"text", betterPlanText(better)},
                                 {"considered", better.considered},
                                 {"search_seconds", better.searchSeconds}};
  if (!better.strategy)
    return json;
  json["strategy"] = strategyToJson(*better.strategy);
  json["step_seconds"] = better.stepSeconds;
  json["memory_bytes"] = std::llround(better.memoryBytes);
  json["devices"] = better.strategy->ranks();
  json["binding_constraint"] = better.bindingConstraint;
  if (better.askedSeconds > 0)
    json["saved_seconds"] = better.askedSeconds - better.stepSeconds;
  return json;
}

} // namespace dpc::cost
