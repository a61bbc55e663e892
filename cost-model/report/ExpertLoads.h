//===- ExpertLoads.h - How full the ranks of experts are --------*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Routing.h"

#include <nlohmann/json.hpp>

namespace dpc::cost {

/// The S of zipf:S in the report: a skew that trained routers without balancing
/// reach.
inline constexpr double kShownSkew = 1.2;

/// The experts of the largest mixture, and the ranks that share them.
struct ExpertLoads {
  int64_t experts = 1, perToken = 1, ranks = 1;
  /// The slots of an expert relative to its mean number of choices; 0: all
  /// choices are computed.
  double slotsPerChoice = 0;
  Routing assumed = {}; ///< The routing of the predicted times.
};

/// Returns one line with the load of the fullest rank, or the share of choices
/// that find no slot, under `assumed`, balanced routing and zipf:1.2.
std::string expertLine(const ExpertLoads &loads);

/// Returns the same as the entry "experts" of report.json.
nlohmann::ordered_json expertsToJson(const ExpertLoads &loads);

} // namespace dpc::cost
