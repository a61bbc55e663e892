//===- ToyCluster.h - Two devices on which only latencies count -*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"

namespace dpc::test {

/// Each kernel takes `launch` seconds, and each flat collective `wire` seconds.
inline cost::Cluster toyCluster(double launch, double wire) {
  cost::Cluster cluster;
  cost::Device device;
  device.name = "toy";
  device.peakFlops.fill(1e18);
  device.memoryBytes = device.memoryBytesPerSecond = 1e18;
  device.launchSeconds = launch;
  cluster.groups.push_back(cost::NodeGroup{1, 2, device});
  cost::Level level;
  level.name = "wire";
  level.span = 2;
  level.bytesPerSecond = 1e18;
  level.latencySeconds = wire;
  cluster.levels.push_back(level);
  return cluster;
}

} // namespace dpc::test
