//===- FeasibilityTest.cpp - Plans and the memory of devices --------------===//
#include "cost-model/search/Feasibility.h"
#include "test/unit/cost-model/ToySearch.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

namespace {

Evaluation evaluationOf(double deviceBytes, double hostBytes) {
  Evaluation evaluation;
  evaluation.memory[MemoryCategory::Parameters] = deviceBytes;
  evaluation.hostBytes = hostBytes;
  return evaluation;
}

TEST(Feasibility, ComparesTheFullestDeviceWithItsOwnLimit) {
  Cluster cluster = toyCluster(4); // Each device has 1000 bytes.
  Feasibility feasibility(cluster);
  EXPECT_TRUE(feasibility.fits(evaluationOf(1000, 0)));
  EXPECT_FALSE(feasibility.fits(evaluationOf(1001, 0)));
  EXPECT_EQ(feasibility.excessBytes(evaluationOf(1300, 0)), 300);
  Evaluation onSmallDevice = evaluationOf(900, 0);
  onSmallDevice.memoryLimitBytes = 800;
  EXPECT_EQ(feasibility.excessBytes(onSmallDevice), 100);
}

TEST(Feasibility, CountsAllRanksOfANodeOnTheHost) {
  Cluster cluster = toyCluster(4);
  Feasibility feasibility(cluster);
  // Without a memory size of the host, every plan fits.
  EXPECT_TRUE(feasibility.fits(evaluationOf(1000, 1e9)));
  cluster.host.memoryBytes = 4000;
  EXPECT_TRUE(feasibility.fits(evaluationOf(1000, 1000)));
  EXPECT_EQ(feasibility.excessBytes(evaluationOf(1000, 1001)), 4);
}

TEST(Feasibility, OffloadedBytesStayInSharedMemory) {
  Cluster cluster = toyCluster(4);
  cluster.host.holdsDevices = true;
  Feasibility feasibility(cluster);
  EXPECT_TRUE(feasibility.fits(evaluationOf(600, 400)));
  EXPECT_EQ(feasibility.excessBytes(evaluationOf(600, 500)), 100);
}

} // namespace
