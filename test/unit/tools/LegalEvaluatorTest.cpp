//===- LegalEvaluatorTest.cpp - placements that a target accepts ----------===//
#include "tools/driver/LegalEvaluator.h"

#include <gtest/gtest.h>

using namespace dpc;

namespace {

/// Without a placement, prefers the pipeline innermost, which takes 1 s. The
/// order tp.cp.pp.dp takes 2 s, and every other order 3 s.
class FakeEvaluator : public cost::Evaluator {
public:
  cost::ModelTotals totals() override { return {}; }
  cost::Bounds bound(const cost::Strategy &) override { return {}; }
  cost::Evaluation evaluate(const cost::Strategy &strategy) override {
    cost::Evaluation found;
    const auto &axes = strategy.placement.axes;
    found.decisions.isReordered = true;
    for (const std::string &axis :
         axes.empty() ? std::vector<std::string>{"pp", "tp", "cp", "dp"} : axes)
      found.decisions.order.push_back({axis, 2});
    found.stepSeconds = axes.empty() ? 1 : axes[2] == "pp" ? 2 : 3;
    return found;
  }
};

cost::Strategy strategyOf(const std::string &text) {
  return *cost::parseCompleteStrategy(text);
}

/// Pipelines need one of `orders`.
cost::Evaluation evaluate(const std::string &strategy,
                          const std::vector<std::vector<std::string>> &orders) {
  LegalEvaluator evaluator(
      std::make_unique<FakeEvaluator>(), [=](const cost::Strategy &tried) {
        const auto &axes = tried.placement.axes;
        return tried.zero == 0 &&
               (axes.empty() || std::ranges::count(orders, axes) > 0);
      });
  cost::Evaluation one = evaluator.evaluate(strategyOf(strategy));
  EXPECT_EQ(evaluator.evaluateMany({strategyOf(strategy)})[0].stepSeconds,
            one.stepSeconds);
  return one;
}

const std::vector<std::string> kDefault = {"tp", "cp", "dp", "pp"},
                               kOther = {"tp", "cp", "pp", "dp"},
                               kInside = {"pp", "tp", "cp", "dp"};

TEST(LegalEvaluator, TheFastestLegalPlacementCounts) {
  EXPECT_EQ(evaluate("dp=2,tp=2,pp=2", {kDefault, kInside}).stepSeconds, 1);
  EXPECT_EQ(evaluate("dp=2,tp=2,pp=2", {kDefault, kOther}).stepSeconds, 2);
  EXPECT_EQ(evaluate("dp=2,tp=2,pp=2", {kDefault}).stepSeconds, 3);
}

TEST(LegalEvaluator, WithoutALegalPlacementTheStrategyIsRejected) {
  EXPECT_NE(evaluate("dp=2,tp=2,pp=2", {}).rejected, "");
}

TEST(LegalEvaluator, BaselinesStayAsTheyAre) {
  cost::Evaluation found = evaluate("dp=2,tp=2,pp=2,zero=1", {kDefault});
  EXPECT_EQ(found.stepSeconds, 1);
  EXPECT_EQ(found.rejected, "");
}

} // namespace
