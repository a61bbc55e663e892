//===- NearestPlanTest.cpp - plans of a target, by fake searches ----------===//
#include "tools/driver/NearestPlan.h"

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

/// The winner is one that DeepSpeed cannot express.
class Fixture : public ::testing::Test {
protected:
  cost::SearchResult result;
  CompileOptions options;
  std::vector<std::string> asked;
  std::vector<cost::Candidate> answers;

  std::string nearest(bool isMended = false) {
    exports::Job job;
    job.strategy = result.candidates.front().strategy;
    job.globalBatch = 64;
    job.model = {24, 2048, 1024, 16, 4, 64, 4096, 50257};
    const exports::Target &target = *exports::findTarget("deepspeed");
    cost::Cluster used;
    NearestPlan plans(
        options, target, job, result, used, 8,
        [&](const std::string &strategy) -> Expected<cost::PartResult> {
          asked.push_back(strategy);
          if (asked.size() > answers.size())
            return Error{"nothing more is expected to be asked"};
          cost::PartResult found;
          found.search.candidates = {answers[asked.size() - 1]};
          return found;
        });
    exports::Legality legality = exports::checkLegality(job, target.rules());
    EXPECT_FALSE(legality.ok());
    auto plan = isMended ? plans.mended(legality) : plans.find(legality);
    return plan ? plans.describe(*plan) : "";
  }
};

using NearestPlanTest = Fixture;

TEST_F(NearestPlanTest, TheFirstLegalCandidateNeedsNoSearch) {
  result.candidates = {candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1),
                       candidateOf("dp=4,tp=2,zero=1,micro_batch=1", 1.02,
                                   /*fits=*/false),
                       candidateOf("dp=8,zero=1,micro_batch=2", 1.04),
                       candidateOf("dp=8,zero=3,micro_batch=2", 1.045)};
  EXPECT_EQ(nearest(), "--strategy=dp=8,tp=1,zero=1,micro_batch=2 (1.04 s a "
                       "step, 4.0 % slower, 1.00 GiB)");
  EXPECT_TRUE(asked.empty());
}

TEST_F(NearestPlanTest, ComposedCandidatesAreEvaluatedExactly) {
  result.candidates = {candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1),
                       candidateOf("dp=8,zero=1,micro_batch=2", 1.04)};
  result.candidates[1].evaluation.isComposed = true;
  answers = {candidateOf("dp=8,zero=1,micro_batch=2", 1.1)};
  EXPECT_EQ(nearest(), "--strategy=dp=8,tp=1,zero=1,micro_batch=2 (1.10 s a "
                       "step, 10.0 % slower, 1.00 GiB)");
  EXPECT_EQ(asked, std::vector<std::string>{"dp=8,tp=1,zero=1,micro_batch=2"});
}

TEST_F(NearestPlanTest, TheRulesMendTheWinner) {
  result.candidates = {candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1)};
  answers = {candidateOf("dp=4,tp=2,micro_batch=1", 1.1)};
  EXPECT_EQ(nearest(), "--strategy=dp=4,tp=2,micro_batch=1 (1.10 s a step, "
                       "10.0 % slower, 1.00 GiB)");
  EXPECT_EQ(asked, std::vector<std::string>{"dp=4,tp=2,micro_batch=1"});
}

TEST_F(NearestPlanTest, LegalStrategiesAreSearchedIfTheMendedOneDoesNotFit) {
  result.candidates = {candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1)};
  answers = {candidateOf("dp=4,tp=2,micro_batch=1", 1.1, /*fits=*/false),
             candidateOf("dp=8,zero=3,micro_batch=1", 1.2)};
  EXPECT_EQ(nearest(), "--strategy=dp=8,tp=1,zero=3,micro_batch=1 (1.20 s a "
                       "step, 20.0 % slower, 1.00 GiB)");
  EXPECT_EQ(asked,
            (std::vector<std::string>{"dp=4,tp=2,micro_batch=1", "auto"}));
}

/// The user asked for sp=true, which mending would change.
TEST_F(NearestPlanTest, KeysOfTheUserStay) {
  options.strategy = "tp=2,sp=true";
  result.candidates = {candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1)};
  EXPECT_EQ(nearest(), "");
  EXPECT_EQ(asked, std::vector<std::string>{"tp=2,sp=true"});
}

TEST_F(NearestPlanTest, NothingThatDoesNotFitIsTheNearest) {
  result.candidates = {candidateOf("dp=4,tp=2,sp=true,micro_batch=1", 1)};
  answers = {candidateOf("dp=4,tp=2,micro_batch=1", 1.1, /*fits=*/false)};
  EXPECT_EQ(nearest(/*isMended=*/true), "");
}

} // namespace
