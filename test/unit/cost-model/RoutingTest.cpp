#include "cost-model/strategy/Routing.h"
#include "cost-model/report/ExpertLoads.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

namespace {

/// Returns how often each expert is chosen if a token draws `left` different
/// experts one after the other, by enumeration.
std::vector<double> enumerate(const std::vector<double> &draw, int left,
                              std::vector<bool> taken, double reached = 1) {
  std::vector<double> often(draw.size());
  double free = 0;
  for (size_t e = 0; e < draw.size(); ++e)
    free += taken[e] ? 0 : draw[e];
  for (size_t e = 0; left > 0 && e < draw.size(); ++e) {
    if (taken[e])
      continue;
    double here = reached * draw[e] / free;
    taken[e] = true;
    std::vector<double> later = enumerate(draw, left - 1, taken, here);
    taken[e] = false;
    often[e] += here;
    for (size_t i = 0; i < often.size(); ++i)
      often[i] += later[i];
  }
  return often;
}

TEST(Routing, BalancedRanksAreEquallyFull) {
  for (double load : Routing().loads(8, 2))
    EXPECT_DOUBLE_EQ(load, 1);
  EXPECT_DOUBLE_EQ(Routing().dropped(8, 2, 1), 0);
  EXPECT_DOUBLE_EQ(Routing().dropped(8, 2, 0.75), 0.25);
  EXPECT_TRUE(Routing().isBalanced());
  EXPECT_TRUE(Routing::zipf(0).isBalanced());
}

// One expert a rank: the fullest rank has the most popular expert.
TEST(Routing, AZipfIsTheEnumeration) {
  for (int64_t perToken : {1, 2, 3}) {
    std::vector<double> draw;
    for (int i = 1; i <= 6; ++i)
      draw.push_back(std::pow(i, -1.2));
    double exact =
        enumerate(draw, static_cast<int>(perToken), std::vector<bool>(6))[0] *
        6 / static_cast<double>(perToken);
    double load = Routing::zipf(1.2).loads(6, perToken).front();
    EXPECT_NEAR(load, exact, 0.003 * exact) << perToken;
  }
}

TEST(Routing, MoreExpertsOnARankAreMoreEven) {
  std::vector<double> loads = Routing::zipf(1.2).loads(64, 4);
  ASSERT_EQ(loads.size(), 64u);
  for (size_t n = 2; n <= 64; n *= 2)
    EXPECT_LT(loads[n - 1], loads[n / 2 - 1]) << n;
  EXPECT_NEAR(loads.back(), 1, 1e-12);
  // All tokens choose all experts.
  for (double load : Routing::zipf(3).loads(4, 4))
    EXPECT_NEAR(load, 1, 1e-12);
}

TEST(Routing, MeasuredCountsStayInOrder) {
  Routing routing = Routing::measured("counts", {{1, 1, 1, 5}, {4, 2, 1, 1}});
  std::vector<double> loads = routing.loads(4, 2);
  EXPECT_DOUBLE_EQ(loads[0], (5 + 4) / 2.0 / 2);
  EXPECT_DOUBLE_EQ(loads[1], (6 + 6) / 2.0 / 4);
  // Ranks with 3 experts and 1 expert.
  EXPECT_DOUBLE_EQ(loads[2], (5 + 7) / 2.0 / 6);
  EXPECT_DOUBLE_EQ(routing.dropped(4, 2, 1), (3 + 2) / 16.0);
  EXPECT_EQ(routing.whyNotFor(4), "");
  EXPECT_EQ(routing.whyNotFor(8),
            "--routing=counts: layer 0 has counts of 4 experts; accepted: 8, "
            "like the model");
}

TEST(Routing, Parse) {
  EXPECT_EQ(Routing::parse("balanced")->name(), "balanced");
  EXPECT_EQ(Routing::parse("zipf:1.20")->name(), "zipf:1.2");
  std::string file = testing::TempDir() + "routing.json";
  auto parseText = [&](const char *text) {
    std::ofstream(file) << text;
    return Routing::parse(file);
  };
  EXPECT_DOUBLE_EQ(parseText("[[1, 3]]")->loads(2, 1)[0], 1.5);
  for (const char *text :
       {"{}", "[]", "[1, 2]", "[[]]", "[[0, 0]]", "[[-1, 2]]", "[[1, \"a\"]]",
        "[[1, 1e999]]", "[[1, 2], [1,", "\xff"})
    EXPECT_FALSE(parseText(text)) << text;
  for (const char *text :
       {"zipf", "zipf:", "zipf:-1", "zipf:11", "zipf:nan", "zipf:1x", "even"})
    EXPECT_FALSE(Routing::parse(text)) << text;
  EXPECT_EQ(Routing::parse("zipf:11").message(),
            "--routing=zipf:11: is not a routing; accepted: balanced, zipf:S "
            "with S from 0 to 10, such as zipf:1.2, or a JSON file with a list "
            "of layers, each a list of the tokens that each expert got");
}

TEST(Routing, TheReportShowsTheFullestRank) {
  ExpertLoads loads{.experts = 8, .perToken = 2, .ranks = 4};
  EXPECT_EQ(expertLine(loads).find("experts: 2 of 8 per token, 2 on a rank; "
                                   "choices of the fullest of 4 ranks relative "
                                   "to the mean: 1 x if balanced (assumed), "),
            0u);
  EXPECT_EQ(expertsToJson(loads)["fullest_rank"]["zipf:1.2"],
            Routing::zipf(1.2).loads(8, 2)[1]);
  loads.assumed = Routing::zipf(1.2);
  EXPECT_NE(expertLine(loads).find("if zipf:1.2 (assumed), 1 x if balanced"),
            std::string::npos);
  EXPECT_FALSE(expertsToJson(loads).contains("choices_without_slot"));
  loads.slotsPerChoice = 1.5;
  EXPECT_EQ(expertsToJson(loads)["choices_without_slot"]["balanced"], 0);
  loads.ranks = 1;
  EXPECT_EQ(expertLine(loads).find("fullest"), std::string::npos);
}

} // namespace
