#include "cost-model/machine/Headroom.h"
#include "cost-model/search/Feasibility.h"

#include <gtest/gtest.h>

using namespace dpc::cost;

namespace {

TEST(Headroom, IsAShareOfWhatTheReserveLeaves) {
  Device large, small;
  large.memoryBytes = 1200;
  large.memoryReservedBytes = 200;
  small.memoryBytes = 800;
  Cluster cluster;
  cluster.groups = {{1, 2, small}, {1, 2, large}};
  Cluster limited = withHeadroom(cluster, 0.1);
  EXPECT_DOUBLE_EQ(limited.groups[0].device.usableBytes(), 720);
  EXPECT_DOUBLE_EQ(limited.mostUsableBytes(), 900);
  EXPECT_DOUBLE_EQ(withHeadroom(cluster, 0).mostUsableBytes(), 1000);
  Evaluation plan;
  plan.memory[MemoryCategory::Activations] = 950;
  EXPECT_TRUE(Feasibility(cluster).fits(plan));
  EXPECT_FALSE(Feasibility(limited).fits(plan));
}

} // namespace
