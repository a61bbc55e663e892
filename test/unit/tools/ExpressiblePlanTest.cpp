//===- ExpressiblePlanTest.cpp - plans of a target, by fake searches ------===//
#include "tools/driver/ExpressiblePlan.h"

#include "codegen/export/Targets.h"

#include <gtest/gtest.h>

using namespace dpc;

namespace {

cost::Candidate candidateOf(const std::string &text, double seconds,
                            bool fits = true) {
  auto request = cost::parseStrategy(text, 8);
  EXPECT_TRUE(request) << text;
  cost::StrategySpace space;
  space.ranks = request->ranks.value_or(8);
  space.globalBatch = 64;
  cost::Candidate candidate;
  candidate.strategy = cost::enumerateStrategies(*request, space).at(0);
  candidate.evaluation.stepSeconds = seconds;
  candidate.evaluation.memory[cost::MemoryCategory::Parameters] = 1 << 30;
  candidate.fits = fits;
  return candidate;
}

class Fixture : public ::testing::Test {
protected:
  cost::SearchResult result;
  CompileOptions options;
  std::vector<std::string> asked;
  std::vector<cost::SearchResult> answers;

  static cost::SearchResult resultOf(std::vector<cost::Candidate> candidates) {
    cost::SearchResult found;
    found.candidates = std::move(candidates);
    found.considered = 100;
    found.memoryLimitBytes = 1 << 29;
    return found;
  }

  std::string text() {
    exports::Job job;
    job.strategy = result.candidates.front().strategy;
    job.globalBatch = 64;
    job.model = {24, 2048, 1024, 16, 4, 64, 4096, 50257};
    std::vector<exports::Rule> rules =
        exports::findTarget("deepspeed")->rules();
    auto search = [&](const CompileOptions &options,
                      const ExpressiblePlan::Accepts &accepts)
        -> Expected<cost::SearchResult> {
      asked.push_back((accepts ? "legal: " : "one: ") + options.strategy);
      if (accepts) {
        EXPECT_FALSE(accepts(job.strategy));
      }
      if (asked.size() > answers.size())
        return Error{"nothing more is expected to be asked"};
      return answers[asked.size() - 1];
    };
    return ExpressiblePlan(options, job, rules, result, 8, search)
        .text(exports::checkLegality(job, rules));
  }
};

using ExpressiblePlanTest = Fixture;

TEST_F(ExpressiblePlanTest, NearCandidatesNeedNoSearch) {
  result = resultOf({candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1),
                     candidateOf("dp=4,tp=2,zero=1,micro_batch=1", 1.02, false),
                     candidateOf("dp=8,zero=1,micro_batch=2", 1.04),
                     candidateOf("dp=8,zero=3,micro_batch=2", 1.045)});
  EXPECT_EQ(text(), "; best that it can express: --strategy=dp=8,tp=1,zero=1,"
                    "micro_batch=2 (1.04 s a step, 4.0 % slower, 1.00 GiB)");
  EXPECT_TRUE(asked.empty());
}

TEST_F(ExpressiblePlanTest, FarOnesAreSearchedForAmongTheLegal) {
  result = resultOf({candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1),
                     candidateOf("dp=8,zero=1,micro_batch=2", 1.5)});
  answers = {resultOf({candidateOf("dp=8,zero=3,micro_batch=4", 1.25)})};
  EXPECT_EQ(text(), "; best that it can express: --strategy=dp=8,tp=1,zero=3,"
                    "micro_batch=4 (1.25 s a step, 25.0 % slower, 1.00 GiB)");
  EXPECT_EQ(asked, std::vector<std::string>{"legal: auto"});
}

/// With 24 layers, a pipeline of 3 stages is legal on 6 nodes but not on 8.
TEST_F(ExpressiblePlanTest, FewerNodesAreTriedWhereTheBestIsFar) {
  result = resultOf({candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1)});
  answers = {resultOf({candidateOf("dp=8,zero=3,micro_batch=4", 1.6)}),
             resultOf({candidateOf("dp=2,pp=3,micro_batch=1,ranks=6", 1.2)})};
  EXPECT_EQ(text(), "; best that it can express: --strategy=dp=2,tp=1,pp=3,"
                    "micro_batch=1,ranks=6 (1.20 s a step, 20.0 % slower, "
                    "1.00 GiB)");
  EXPECT_EQ(asked, (std::vector<std::string>{"legal: auto", "legal: ranks=6"}));
}

/// If a placement breaks a rule, the strategy is evaluated again with a legal
/// placement.
TEST_F(ExpressiblePlanTest, PlacementsAreMended) {
  cost::Candidate placed = candidateOf("dp=4,pp=2,zero=1,micro_batch=1", 1.01);
  placed.evaluation.decisions.order = {{"pp", 2}, {"dp", 4}};
  placed.evaluation.decisions.isReordered = true;
  result =
      resultOf({candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1), placed});
  answers = {resultOf({candidateOf("dp=4,pp=2,zero=1,micro_batch=1,"
                                   "placement=tp.cp.dp.pp",
                                   1.03)})};
  EXPECT_EQ(text(),
            "; best that it can express: --strategy=dp=4,tp=1,pp=2,zero=1,"
            "micro_batch=1,placement=tp.cp.dp.pp (1.03 s a step, "
            "3.0 % slower, 1.00 GiB)");
  EXPECT_EQ(asked,
            std::vector<std::string>{"one: dp=4,tp=1,pp=2,zero=1,micro_batch=1,"
                                     "placement=tp.cp.dp.pp"});
}

/// For a fixed strategy, the text names the nearest legal strategy, if it fits,
/// and the best one.
TEST_F(ExpressiblePlanTest, OneStrategyIsMendedAndComparedWithTheBest) {
  options.strategy = "dp=4,tp=2,sp=true,micro_batch=1";
  result = resultOf({candidateOf(options.strategy, 1)});
  result.considered = 1;
  answers = {resultOf({candidateOf("dp=4,tp=2,micro_batch=1", 1.1)}),
             resultOf({}), resultOf({candidateOf("dp=8,micro_batch=1", 0.8)})};
  EXPECT_EQ(text(), "; nearest: --strategy=dp=4,tp=2,micro_batch=1 (1.10 s a "
                    "step, 10.0 % slower, 1.00 GiB); best that it can express: "
                    "--strategy=dp=8,tp=1,micro_batch=1 (800 ms a step, "
                    "20.0 % faster, 1.00 GiB)");
  EXPECT_EQ(asked, (std::vector<std::string>{"one: dp=4,tp=2,micro_batch=1",
                                             "legal: " + options.strategy,
                                             "legal: auto"}));
}

TEST_F(ExpressiblePlanTest, NothingThatDoesNotFitIsNamedAsTheBest) {
  result = resultOf({candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1)});
  answers = {resultOf({candidateOf("dp=8,zero=3,micro_batch=1", 1.5, false)})};
  EXPECT_EQ(text(), "; no strategy that it can express fits: dp=8,tp=1,"
                    "zero=3,micro_batch=1 needs 1.00 GiB of 512 MiB");
}

} // namespace
