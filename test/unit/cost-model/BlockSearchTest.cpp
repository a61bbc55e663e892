//===- BlockSearchTest.cpp - Strategies that share segments ---------------===//

#include "test/unit/cost-model/ToySearch.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace dpc;
using namespace dpc::cost;

/// Strategies with the same tp share segments. The best strategy has tp=8,
/// although the formulas prefer other strategies.
class ToySegments : public ToyEvaluator {
public:
  Bounds bound(const Strategy &) override { return {}; }
  std::string blockOf(const Strategy &strategy) override {
    return std::to_string(strategy.tp) + (strategy.sp ? "s" : "");
  }
  int64_t batchSize() const override { return 1; }
  std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks,
          double limit) override {
    std::vector<std::vector<std::optional<Composition>>> answers;
    for (const std::vector<Strategy> &block : blocks) {
      measured.push_back(block.front().tp);
      std::vector<std::optional<Composition>> &answer = answers.emplace_back();
      for (const Strategy &strategy : block) {
        EXPECT_EQ(blockOf(strategy), blockOf(block.front()));
        Composition composition;
        composition.evaluation = evaluate(strategy);
        composition.evaluation.stepSeconds *= 1.01;
        composition.evaluation.isComposed = true;
        composition.isBound = composition.evaluation.stepSeconds > limit;
        answer.emplace_back(std::move(composition));
      }
    }
    return answers;
  }
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation truth = ToyEvaluator::evaluate(strategy);
    if (strategy.tp == 8)
      truth.stepSeconds = 0.5 + 0.01 * double(8 - strategy.microBatch);
    return truth;
  }
  std::vector<int64_t> measured;
};

TEST(BlockSearch, SegmentsDescribeAllStrategiesThatShareThem) {
  ToySegments evaluator;
  SearchOptions options = optionsFor(8);
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.tp, 8);
  EXPECT_FALSE(result.candidates[0].evaluation.isComposed);
  EXPECT_DOUBLE_EQ(result.candidates[0].evaluation.stepSeconds, 0.5);
  // The search and the baselines each measure a block at most once.
  EXPECT_LE(std::count(evaluator.measured.begin(), evaluator.measured.end(), 8),
            2);
  EXPECT_GT(result.considered - result.skipped,
            static_cast<int64_t>(evaluator.measured.size()));
}

/// Composed evaluations predict a tenth of the true time.
class Optimistic : public ToySegments {
public:
  std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks,
          double limit) override {
    auto answers = ToySegments::compose(blocks, limit);
    for (auto &block : answers)
      for (std::optional<Composition> &answer : block)
        answer->evaluation.stepSeconds /= 10;
    return answers;
  }
};

TEST(BlockSearch, ComposedEvaluationsNeverWin) {
  Optimistic evaluator;
  SearchOptions options = optionsFor(8);
  options.top = 20;
  SearchResult result = searchToy(evaluator, options);
  EXPECT_GT(result.candidates.size(), 12u);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_FALSE(result.candidates[0].evaluation.isComposed);
  EXPECT_DOUBLE_EQ(result.candidates[0].evaluation.stepSeconds, 0.5);
}

/// Strategies with tp=8 cannot be composed, and no other strategy fits.
class WithoutTp8 : public ToySegments {
public:
  WithoutTp8() { parameterBytes = 6400; }
  std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks,
          double limit) override {
    auto answers = ToySegments::compose(blocks, limit);
    for (size_t b = 0; b < blocks.size(); ++b)
      if (blocks[b].front().tp == 8)
        std::fill(answers[b].begin(), answers[b].end(), std::nullopt);
    return answers;
  }
};

TEST(BlockSearch, StrategiesWithoutSegmentsAreEvaluated) {
  WithoutTp8 evaluator;
  SearchOptions options = optionsFor(8);
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.tp, 8);
}

TEST(BlockSearch, TheWinnerDoesNotDependOnTheShownCandidates) {
  std::vector<double> found;
  for (int64_t top : {1, 2, 3, 10}) {
    Optimistic evaluator;
    SearchOptions options = optionsFor(8);
    options.top = top;
    SearchResult result = searchToy(evaluator, options);
    ASSERT_TRUE(result.hasWinner());
    EXPECT_LE(result.candidates.size(), size_t(top));
    found.push_back(result.candidates[0].evaluation.stepSeconds);
    EXPECT_EQ(found.back(), found.front()) << "top " << top;
  }
}

TEST(BlockSearch, MeasuredBlocksCanBeLimited) {
  ToySegments evaluator;
  SearchOptions options = optionsFor(8);
  options.maxEvaluations = 2;
  SearchResult result = searchToy(evaluator, options);
  EXPECT_LE(evaluator.measured.size(), 2u + 4u); // 4 for baselines.
  EXPECT_GT(result.skipped, 0);
}

TEST(BlockSearch, FixedStrategiesAreNotComposed) {
  ToySegments evaluator;
  SearchOptions options = optionsFor(8);
  options.request = *parseStrategy("dp=1,tp=8,micro_batch=8", 8);
  SearchResult result = searchToy(evaluator, options);
  ASSERT_EQ(result.candidates.size(), 1u);
  EXPECT_FALSE(result.candidates[0].evaluation.isComposed);
  EXPECT_EQ(result.baselines.back().name, "megatron-3d");
  EXPECT_NE(result.baselines.back().candidate.method, "formula");
}
