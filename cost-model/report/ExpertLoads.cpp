//===- ExpertLoads.cpp - How full the ranks of experts are ----------------===//
#include "cost-model/report/ExpertLoads.h"

#include "cost-model/report/Report.h"

#include <cstdio>

namespace dpc::cost {

namespace {

/// The routings that are shown: the assumed one first.
std::vector<Routing> shownRoutings(const Routing &assumed) {
  std::vector<Routing> shown = {assumed};
  for (const Routing &other : {Routing(), Routing::zipf(kShownSkew)})
    if (other.name() != assumed.name())
      shown.push_back(other);
  return shown;
}

int64_t perRank(const ExpertLoads &loads) {
  return (loads.experts + loads.ranks - 1) / loads.ranks;
}

double fullestRank(const ExpertLoads &loads, const Routing &routing) {
  return routing.loads(loads.experts, loads.perToken)[perRank(loads) - 1];
}

double dropped(const ExpertLoads &loads, const Routing &routing) {
  return routing.dropped(loads.experts, loads.perToken, loads.slotsPerChoice);
}

std::string times(double factor) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g x", factor);
  return text;
}

} // namespace

std::string expertLine(const ExpertLoads &loads) {
  std::string text = "experts: " + std::to_string(loads.perToken) + " of " +
                     std::to_string(loads.experts) + " per token, " +
                     std::to_string(perRank(loads)) + " on a rank";
  std::string fullest, lost;
  for (const Routing &routing : shownRoutings(loads.assumed)) {
    bool isAssumed = routing.name() == loads.assumed.name();
    std::string name = routing.name() + (isAssumed ? " (assumed)" : "");
    fullest += (fullest.empty() ? "" : ", ") +
               times(fullestRank(loads, routing)) + " if " + name;
    lost += (lost.empty() ? "" : ", ") + formatShare(dropped(loads, routing)) +
            " if " + name;
  }
  if (loads.ranks > 1)
    text += "; choices of the fullest of " + std::to_string(loads.ranks) +
            " ranks relative to the mean: " + fullest;
  if (loads.slotsPerChoice > 0)
    text += "; choices without a slot: " + lost;
  return text;
}

nlohmann::ordered_json expertsToJson(const ExpertLoads &loads) {
  nlohmann::ordered_json json = {{"experts", loads.experts},
                                 {"experts_per_token", loads.perToken},
                                 {"ranks", loads.ranks},
                                 {"experts_per_rank", perRank(loads)},
                                 {"routing", loads.assumed.name()}};
  for (const Routing &routing : shownRoutings(loads.assumed)) {
    json["fullest_rank"][routing.name()] = fullestRank(loads, routing);
    if (loads.slotsPerChoice > 0)
      json["choices_without_slot"][routing.name()] = dropped(loads, routing);
  }
  return json;
}

} // namespace dpc::cost
