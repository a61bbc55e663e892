//===- LegalEvaluator.h - Evaluations that a target accepts -----*- C++ -*-===//
#pragma once

#include "cost-model/search/Evaluator.h"

#include <functional>
#include <memory>

namespace dpc {

/// Evaluates strategies with the placements and batch shares that a target can
/// express. An evaluator chooses these after `accepts` has seen the strategy.
/// If it chooses what `accepts` refuses, the strategy is evaluated again with
/// each usual placement and with even shares, and the fastest result counts.
/// Strategies that `accepts` refuses in any placement (baselines) are evaluated
/// as they are.
class LegalEvaluator : public cost::Evaluator {
public:
  using Accepts = std::function<bool(const cost::Strategy &)>;

  LegalEvaluator(std::unique_ptr<cost::Evaluator> any, Accepts accepts)
      : any(std::move(any)), accepts(std::move(accepts)) {}

  cost::ModelTotals totals() override { return any->totals(); }
  cost::Bounds bound(const cost::Strategy &strategy) override {
    return any->bound(strategy);
  }
  cost::Evaluation evaluate(const cost::Strategy &strategy) override {
    return legal(strategy, any->evaluate(strategy), &Evaluator::evaluate);
  }
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy) override {
    return legal(strategy, any->evaluateWhole(strategy),
                 &Evaluator::evaluateWhole);
  }
  cost::Evaluation describe(const cost::Strategy &strategy) override {
    return legal(strategy, any->describe(strategy), &Evaluator::describe);
  }
  std::vector<cost::Evaluation>
  evaluateMany(const std::vector<cost::Strategy> &strategies) override;
  int64_t batchSize() const override { return any->batchSize(); }
  std::string blockOf(const cost::Strategy &strategy) override {
    return any->blockOf(strategy);
  }
  /// Composed evaluations have the default placement and even shares.
  std::vector<std::vector<std::optional<cost::Composition>>>
  compose(const std::vector<std::vector<cost::Strategy>> &blocks,
          double limit) override {
    return any->compose(blocks, limit);
  }
  void prepareToDescribe() override { any->prepareToDescribe(); }

private:
  std::unique_ptr<cost::Evaluator> any;
  Accepts accepts;

  cost::Evaluation
  legal(const cost::Strategy &strategy, cost::Evaluation found,
        cost::Evaluation (Evaluator::*evaluate)(const cost::Strategy &));
};

} // namespace dpc
