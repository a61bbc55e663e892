//===- BaselineTest.cpp - The baselines of a search -----------------------===//
#include "cost-model/search/FormulaEstimate.h"
#include "test/unit/cost-model/ToySearch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

TEST(Baselines, NeverBeatTheWinner) {
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.maxEvaluations = 1;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  for (const Baseline &baseline : result.baselines)
    if (baseline.candidate.fits && baseline.candidate.method != "formula")
      EXPECT_GE(baseline.candidate.evaluation.stepSeconds,
                result.candidates[0].evaluation.stepSeconds)
          << baseline.name;
}

/// Samples need far more memory than the formulas estimate.
class LargeSamples : public ToyEvaluator {
public:
  Bounds bound(const Strategy &) override { return {}; }
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation truth = estimateByFormula(toyCluster(4), totals(), strategy);
    truth.memory[MemoryCategory::Activations] =
        400 * double(strategy.microBatch);
    tried.push_back(strategy);
    return truth;
  }
  std::vector<Strategy> tried;
};

TEST(Baselines, MayHaveOtherMicroBatchesThanTheRequest) {
  SearchOptions options = optionsFor(4);
  options.request = *parseStrategy("dp=4,micro_batch=1", 4);
  auto sizes = [&] {
    ToyEvaluator evaluator;
    std::set<int64_t> found;
    for (const Baseline &baseline : searchToy(evaluator, options).baselines)
      if (baseline.candidate.strategy.ranks() == 4)
        found.insert(baseline.candidate.strategy.microBatch);
    return found;
  };
  EXPECT_EQ(sizes(), std::set<int64_t>{1});
  options.freesBaselines = true;
  EXPECT_GT(*sizes().rbegin(), 1);
}

TEST(Baselines, TakeAMicroBatchThatFits) {
  LargeSamples evaluator;
  SearchOptions options = optionsFor(4);
  options.maxEvaluations = 1;
  SearchResult result = searchToy(evaluator, options);
  auto zero3 = std::ranges::find(result.baselines, "zero3", &Baseline::name);
  ASSERT_NE(zero3, result.baselines.end());
  EXPECT_TRUE(zero3->candidate.fits) << zero3->candidate.why;
  EXPECT_EQ(zero3->candidate.strategy.microBatch, 1);
  EXPECT_TRUE(std::ranges::any_of(evaluator.tried, [](const Strategy &tried) {
    return tried.zero == 3 && tried.microBatch == 2;
  }));
}

TEST(Baselines, KeepTheRequestedMicroBatch) {
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.request.microBatch = 1;
  options.space.globalBatch = 2 * 65536 * options.space.ranks;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_FALSE(result.baselines.empty());
  for (const Baseline &baseline : result.baselines)
    if (baseline.name != "megatron-3d")
      EXPECT_THAT(baseline.candidate.evaluation.rejected,
                  HasSubstr("more than 65536 micro-batches on a rank"))
          << baseline.name;
}
