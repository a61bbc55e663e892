#include "cost-model/search/ParetoFront.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

TEST(ParetoFront, KeepsPointsThatNoPointBeats) {
  ParetoFront front;
  auto add = [&](int64_t dp, double seconds, double bytes) {
    ParetoPoint point;
    point.strategy.dp = dp;
    point.stepSeconds = seconds;
    point.memoryBytes = bytes;
    front.add(point);
  };
  auto names = [&] {
    std::vector<int64_t> names;
    for (const ParetoPoint &point : front.points())
      names.push_back(point.strategy.dp);
    return names;
  };
  using Names = std::vector<int64_t>;
  add(1, 5, 50);
  add(2, 3, 70);
  add(3, 8, 20);
  EXPECT_EQ(names(), (Names{2, 1, 3}));
  add(4, 5, 50); // Equal to the first point.
  add(5, 6, 50); // Slower without using less memory.
  EXPECT_EQ(names(), (Names{2, 1, 3}));
  add(6, 4, 20); // Better than the first two points.
  EXPECT_EQ(names(), (Names{2, 6}));
  add(7, 4, 10); // As fast as point 6, with less memory.
  EXPECT_EQ(names(), (Names{2, 7}));
  add(8, 2, 5);
  EXPECT_EQ(names(), (Names{8}));
  // A more exact point replaces a point with the same strategy.
  ParetoPoint again;
  again.strategy.dp = 8;
  again.stepSeconds = 9;
  again.memoryBytes = 9;
  front.replace(again);
  EXPECT_EQ(front.points().size(), 1U);
  EXPECT_EQ(front.points()[0].stepSeconds, 9);
}
