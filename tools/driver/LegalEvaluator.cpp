//===- LegalEvaluator.cpp - Evaluations that a target accepts -------------===//
#include "tools/driver/LegalEvaluator.h"

#include <algorithm>

namespace dpc {

using cost::Evaluation;
using cost::Strategy;

/// The orders of ranks that targets have, innermost first.
static const std::vector<std::string> kUsualOrders[] = {
    {"tp", "cp", "dp", "pp"}, {"tp", "cp", "pp", "dp"}};

Evaluation
LegalEvaluator::legal(const Strategy &strategy, Evaluation found,
                      Evaluation (Evaluator::*evaluate)(const Strategy &)) {
  Strategy placed = cost::placedStrategy(strategy, found.decisions);
  if (!found.rejected.empty() || accepts(placed) || !accepts(strategy))
    return found;
  std::optional<Evaluation> best;
  for (const std::vector<std::string> &order : kUsualOrders) {
    Strategy usual = strategy;
    if (usual.placement.axes.empty())
      usual.placement.axes = order;
    // Ranks that share states are adjacent.
    auto &axes = usual.placement.axes;
    if (usual.hybridShard > 1 && strategy.placement.axes.empty())
      axes.insert(std::ranges::find(axes, "dp"), "dpi");
    if (placed.batchShares.isUneven())
      usual.batchShares = cost::BatchShares::even();
    if (!accepts(usual))
      continue;
    Evaluation next = ((*any).*evaluate)(usual);
    if (!best || !best->rejected.empty() ||
        (next.rejected.empty() && next.stepSeconds < best->stepSeconds))
      best = std::move(next);
  }
  if (best)
    return std::move(*best);
  found.rejected = "the target has no such order of ranks or batch shares: " +
                   cost::stringifyStrategy(placed);
  return found;
}

std::vector<Evaluation>
LegalEvaluator::evaluateMany(const std::vector<Strategy> &strategies) {
  std::vector<Evaluation> found = any->evaluateMany(strategies);
  for (size_t i = 0; i < found.size(); ++i)
    found[i] = legal(strategies[i], std::move(found[i]), &Evaluator::evaluate);
  return found;
}

} // namespace dpc
