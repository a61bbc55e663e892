//===- TriedValuesTest.cpp - the values of keys that were tried -----------===//
#include "cost-model/search/TriedValues.h"

#include <gtest/gtest.h>

namespace dpc::cost {
namespace {

TEST(TriedValues, AreNewOnce) {
  TriedValues tried(TriedValues::Keys::All);
  Strategy a;
  a.dp = 8;
  EXPECT_TRUE(tried.add(a));
  EXPECT_FALSE(tried.add(a));
  Strategy b = a;
  b.tp = 2;
  EXPECT_TRUE(tried.add(b));
  b.tp.grid = {2, 2};
  b.tp.ranks = 4;
  EXPECT_TRUE(tried.add(b));
  b.tp = 4; // The grid of four ranks is another value.
  EXPECT_TRUE(tried.add(b));
  // Each of these values was tried, but not together.
  b.tp = 2;
  b.dp = 8;
  EXPECT_FALSE(tried.add(b));
  // Without stages, schedules have no effect.
  b.schedule = ScheduleKind::ZbH1;
  EXPECT_FALSE(tried.add(b));
  b.pp = 2;
  EXPECT_TRUE(tried.add(b));
}

TEST(TriedValues, OfBlocksAreThoseOfLayers) {
  TriedValues tried(TriedValues::Keys::OfBlocks);
  Strategy a;
  EXPECT_TRUE(tried.add(a));
  a.dp = 8;
  a.pp = 4;
  EXPECT_FALSE(tried.add(a));
  a.microBatch = 2;
  EXPECT_TRUE(tried.add(a));
  a.zero = 1;
  EXPECT_TRUE(tried.add(a));
}

} // namespace
} // namespace dpc::cost
