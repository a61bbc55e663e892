//===- RankAgreementTest.cpp - processes that run different things --------===//
#include "runtime/job/RankAgreement.h"
#include "test/unit/runtime/CommConformance.h"
#include "test/unit/runtime/Expect.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <fstream>
#include <mutex>

namespace dpc {
namespace {

using namespace rt;

/// Returns the message of each rank, "" for success.
std::vector<std::string>
compare(const std::vector<std::vector<Setting>> &factsByRank) {
  std::vector<std::string> messages(factsByRank.size());
  rt::test::onRanks(
      static_cast<int>(factsByRank.size()), 60, [&](Communicator &comm) {
        messages[comm.rank()] =
            compareWithRankZero(comm, factsByRank[comm.rank()]).message();
      });
  return messages;
}

TEST(RankAgreement, ARankThatDiffersNamesTheFactAndBothValues) {
  std::vector<Setting> first = {{"--steps", "10"}, {"--shuffle", ""}};
  std::vector<Setting> other = {{"--steps", "1000"}, {"--shuffle", ""}};
  std::vector<Setting> shuffled = {{"--steps", "10"}, {"--shuffle", "7"}};
  auto said = compare({first, first, other, shuffled});
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(said[1], "");
  EXPECT_HAS(said[2], "--steps is 1000, but on rank 0 it is 10");
  EXPECT_HAS(said[3], "--shuffle is 7, but on rank 0 it is not given");
}

TEST(RankAgreement, ARankWithoutFactsStillTakesPart) {
  auto said = compare({{{"--steps", "10"}}, {}, {{"--steps", "10"}}});
  EXPECT_EQ(said[2], "");
}

class CommonFacts : public rt::test::ScratchFolder {
protected:
  std::vector<Setting> of(const RunOptions &options) {
    auto inputs = randomInputs(Plan(), 0);
    auto facts = commonFacts(options, *inputs, nullptr);
    EXPECT_TRUE(facts.ok()) << facts.status().message();
    return facts ? *facts : std::vector<Setting>();
  }
};

TEST_F(CommonFacts, FilesCountByTheirContents) {
  std::filesystem::create_directories(at("a"));
  std::filesystem::create_directories(at("b"));
  std::ofstream(at("a/plan.json")) << "one";
  std::ofstream(at("b/plan.json")) << "one";
  RunOptions first, second;
  first.plan = at("a");
  second.plan = at("b");
  EXPECT_EQ(of(first), of(second));
  std::ofstream(at("b/plan.json")) << "two";
  EXPECT_NE(of(first), of(second));
  std::ofstream(at("a.safetensors")) << "weights";
  std::ofstream(at("b.safetensors")) << "weights";
  second.plan = first.plan;
  first.init = at("a.safetensors");
  second.init = at("b.safetensors");
  EXPECT_EQ(of(first), of(second));
  std::ofstream(at("b.safetensors")) << "others!";
  EXPECT_NE(of(first), of(second));
}

TEST_F(CommonFacts, OptionsOfTheStepsCountAndPlacesDoNot) {
  std::ofstream(at("plan.json")) << "one";
  RunOptions options;
  options.plan = at("");
  std::vector<Setting> facts = of(options);
  RunOptions other = options;
  other.checkpoint = "/somewhere";
  EXPECT_NE(of(other), facts);
  RunOptions elsewhere = other;
  elsewhere.checkpoint = "/elsewhere";
  elsewhere.offloadDir = "/disk2";
  EXPECT_EQ(of(elsewhere), of(other));
  RunOptions more = options;
  more.onNan = "go-on";
  EXPECT_NE(of(more), facts);
}

} // namespace
} // namespace dpc
