#include "cost-model/machine/SoftwareMemory.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

TEST(SoftwareMemory, ZeroStagesShardStates) {
  Software software;
  software.gradientBytesBF16 = 6;
  software.updateBytesBF16 = 12;
  StateBytes bytes = stateBytes(software, DType::BF16, 1, 4);
  EXPECT_EQ(bytes.parameter, 2);
  EXPECT_EQ(bytes.gradient, 6);
  EXPECT_EQ(bytes.update, 3);
  bytes = stateBytes(software, DType::BF16, 3, 4);
  EXPECT_EQ(bytes.parameter, 0.5);
  EXPECT_EQ(bytes.gradient, 1.5);
  EXPECT_EQ(stateBytes(software, DType::F16, 0, 4).update, 16);
  // One copy of the parameter, its gradient and two moments.
  bytes = stateBytes(software, DType::F32, 0, 4);
  EXPECT_EQ(bytes.parameter + bytes.gradient + bytes.update, 16);
}

TEST(SoftwareMemory, SlackIsAtMostTheFreeMemory) {
  Cluster cluster;
  Device device;
  device.memoryBytes = 1000;
  cluster.groups.push_back(NodeGroup{1, 1, device});
  MemoryBreakdown counted;
  counted[MemoryCategory::Optimizer] = 300;
  counted[MemoryCategory::Activations] = 300;
  counted[MemoryCategory::Workspace] = 100;
  EXPECT_EQ(heldMemory(cluster, counted).total(),
            700); // `keepsMemory` is false.
  cluster.software.keepsMemory = true;
  cluster.software.activationSlack = 1.25;
  cluster.software.reservedBytes = 50;
  MemoryBreakdown held = heldMemory(cluster, counted);
  EXPECT_EQ(held.total(), 850);
  EXPECT_EQ(held[MemoryCategory::Activations], 375);
  EXPECT_EQ(held[MemoryCategory::Communication], 50);
  counted[MemoryCategory::Optimizer] = 500;
  EXPECT_EQ(heldMemory(cluster, counted).total(), 1000);
  // Without free memory, there is no slack.
  counted[MemoryCategory::Optimizer] = 900;
  EXPECT_EQ(heldMemory(cluster, counted).total(), 1350);
}
