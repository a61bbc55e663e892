#include "cost-model/strategy/BatchShares.h"
#include "cost-model/strategy/Strategy.h"
#include "cost-model/strategy/StrategyShrink.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using testing::HasSubstr;

namespace dpc::cost {
namespace {

using Numbers = std::vector<int64_t>;

TEST(BatchShares, RatiosBecomeMicroBatches) {
  // 2 ranks with 2 micro-batches each divide 4 micro-batches as 3:1.
  EXPECT_EQ(*shareMicroBatches({3, 1}, 2, 2), (Numbers{3, 1}));
  EXPECT_EQ(*shareMicroBatches({6, 2}, 2, 2), (Numbers{3, 1}));
  EXPECT_EQ(*shareMicroBatches({3, 1}, 2, 8), (Numbers{12, 4}));
  // Each ratio applies to 4 / 2 adjacent ranks.
  EXPECT_EQ(*shareMicroBatches({3, 1}, 4, 2), (Numbers{3, 3, 1, 1}));
  EXPECT_TRUE(shareMicroBatches({}, 4, 2)->empty());
  EXPECT_TRUE(shareMicroBatches({2, 2}, 4, 2)->empty());
}

TEST(BatchShares, RatiosThatDoNotFitAreRefused) {
  EXPECT_THAT(shareMicroBatches({3, 1}, 3, 2).message(),
              HasSubstr("divisor of dp = 3"));
  EXPECT_THAT(shareMicroBatches({2, 1}, 2, 2).message(),
              HasSubstr("multiple of 3"));
  auto parse = [](const char *text) {
    return parseValue<BatchShares>("batch_shares", text);
  };
  for (const char *text : {"", "3:", ":1", "3:0", "3:-1", "3:x", "3,1"})
    EXPECT_FALSE(parse(text)) << text;
  EXPECT_EQ(parse("3:1")->ratios, (Numbers{3, 1}));
  EXPECT_TRUE(parse("auto")->ratios.empty());
  EXPECT_TRUE(parse("3:1")->isUneven());
  for (const char *text : {"auto", "even", "2:2", "5"}) {
    EXPECT_FALSE(parse(text)->isUneven()) << text;
    EXPECT_EQ(printValue(*parse(text)), text);
  }
}

TEST(BatchShares, TextIsShortAndReadsBack) {
  EXPECT_EQ(printValue(sharesFrom({6, 6, 2, 2})), "3:1");
  EXPECT_EQ(printValue(sharesFrom({3, 3, 1, 2})), "3:3:1:2");
  EXPECT_EQ(printValue(sharesFrom({4, 4})), "1");
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    int64_t dp = 1 + int64_t(random() % 6), sum = 0;
    Numbers shares;
    for (int64_t rank = 0; rank < dp; ++rank)
      shares.push_back(1 + int64_t(random() % 4));
    sum = std::accumulate(shares.begin(), shares.end(), int64_t(0));
    if (sum % dp != 0)
      continue;
    Numbers again = *shareMicroBatches(sharesFrom(shares).ratios, dp, sum / dp);
    if (again.empty())
      again.assign(dp, sum / dp);
    EXPECT_EQ(again, shares);
  }
}

/// Returns the smallest possible maximum, by exhaustive search.
double leastMaximum(const std::vector<double> &seconds, size_t rank,
                    int64_t left) {
  if (rank + 1 == seconds.size())
    return double(left) * seconds[rank];
  double best = 1e300;
  int64_t others = int64_t(seconds.size() - rank - 1);
  for (int64_t own = 1; own + others <= left; ++own)
    best =
        std::min(best, std::max(double(own) * seconds[rank],
                                leastMaximum(seconds, rank + 1, left - own)));
  return best;
}

TEST(BatchShares, FastestAreAsFastAsAnyShares) {
  EXPECT_EQ(fastestShares({1, 3}, 4), (Numbers{3, 1}));
  EXPECT_EQ(fastestShares({1, 1}, 4), (Numbers{2, 2}));
  EXPECT_EQ(fastestShares({1, 100}, 4), (Numbers{3, 1})) << "each takes one";
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(0.5, 4);
  for (int i = 0; i < 100; ++i) {
    std::vector<double> seconds(1 + random() % 4);
    for (double &of : seconds)
      of = draw(random);
    int64_t total = int64_t(seconds.size()) + int64_t(random() % 8);
    Numbers shares = fastestShares(seconds, total);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t(0)), total);
    double most = 0;
    for (size_t rank = 0; rank < seconds.size(); ++rank)
      most = std::max(most, double(shares[rank]) * seconds[rank]);
    EXPECT_DOUBLE_EQ(most, leastMaximum(seconds, 0, total));
  }
}

std::string refusal(const char *text) {
  auto request = parseStrategy(text, 4);
  return request ? "" : request.message();
}

TEST(BatchShares, KeysThatSynchronizeMicroBatchesAreRefused) {
  EXPECT_EQ(refusal("dp=4,zero=1,batch_shares=3:1"), "");
  EXPECT_EQ(refusal("dp=4,zero=3,batch_shares=even"), "");
  EXPECT_THAT(refusal("dp=4,zero=2,batch_shares=3:1"),
              HasSubstr("zero=0 or 1"));
  EXPECT_THAT(refusal("dp=4,ep=2,batch_shares=3:1"), HasSubstr("ep=1"));
  EXPECT_THAT(refusal("dp=4,batch_shares=3:2:1"), HasSubstr("divisor of dp"));
  EXPECT_THAT(refusal("dp=4,batch_shares=3:zero"), HasSubstr("such as 3:1"));
}

TEST(BatchShares, StayUnevenWhenShrunk) {
  Strategy large;
  large.dp = 64;
  large.tp = 8;
  large.microBatch = 2;
  large.batchShares.ratios = {3, 1};
  ShrunkStrategy small = shrinkStrategy(large, 1024, 8);
  EXPECT_TRUE(small.strategy.batchShares.isUneven());
  int64_t microBatches = small.strategy.microBatches(small.globalBatch);
  auto shares = shareMicroBatches(small.strategy.batchShares.ratios,
                                  small.strategy.dp, microBatches);
  ASSERT_TRUE(shares) << shares.message();
  EXPECT_EQ(shares->size(), size_t(small.strategy.dp));
}

} // namespace
} // namespace dpc::cost
