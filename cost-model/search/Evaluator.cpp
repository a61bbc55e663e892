//===- Evaluator.cpp - Who knows what strategies cost ---------------------===//
#include "cost-model/search/Evaluator.h"

#include "cost-model/strategy/BatchShares.h"

namespace dpc::cost {

Strategy placedStrategy(const Strategy &strategy, const Decisions &decisions) {
  Strategy placed = strategy;
  if (!decisions.batchShares.empty())
    placed.batchShares = stringifyShares(decisions.batchShares);
  if (!decisions.isReordered && decisions.groups.empty())
    return placed;
  std::string axes, groups;
  for (const RankAxis &axis : decisions.order)
    axes += (axes.empty() ? "" : ".") + axis.name;
  for (int64_t group : decisions.groups)
    groups += (groups.empty() ? "@" : ".") + std::to_string(group);
  if (size_t at = strategy.placement.find('@'); at != std::string::npos)
    groups = strategy.placement.substr(at);
  placed.placement = (decisions.isReordered ? axes : "") + groups;
  return placed;
}

Evaluator::~Evaluator() = default;

std::vector<Evaluation>
Evaluator::evaluateMany(const std::vector<Strategy> &strategies) {
  std::vector<Evaluation> evaluations;
  evaluations.reserve(strategies.size());
  for (const Strategy &strategy : strategies)
    evaluations.push_back(evaluate(strategy));
  return evaluations;
}

std::vector<std::vector<std::optional<Composition>>>
Evaluator::compose(const std::vector<std::vector<Strategy>> &blocks, double) {
  std::vector<std::vector<std::optional<Composition>>> nothing;
  nothing.reserve(blocks.size());
  for (const std::vector<Strategy> &block : blocks)
    nothing.emplace_back(block.size());
  return nothing;
}

} // namespace dpc::cost
