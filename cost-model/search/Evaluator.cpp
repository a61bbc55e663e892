//===- Evaluator.cpp - Who knows what strategies cost ---------------------===//
#include "cost-model/search/Evaluator.h"

#include "cost-model/strategy/BatchShares.h"

namespace dpc::cost {

Strategy placedStrategy(const Strategy &strategy, const Decisions &decisions) {
  Strategy placed = strategy;
  if (!decisions.batchShares.empty())
    placed.batchShares = sharesFrom(decisions.batchShares);
  if (!decisions.isReordered && decisions.groups.empty())
    return placed;
  placed.placement.axes.clear();
  if (decisions.isReordered)
    for (const RankAxis &axis : decisions.order)
      placed.placement.axes.push_back(axis.name);
  if (placed.placement.groups.empty())
    placed.placement.groups = decisions.groups;
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
