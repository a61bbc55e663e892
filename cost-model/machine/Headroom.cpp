//===- Headroom.cpp - Memory that plans leave free ------------------------===//
#include "cost-model/machine/Headroom.h"

#include <cassert>

namespace dpc::cost {

Cluster withHeadroom(Cluster cluster, double share) {
  assert(share >= 0 && share < 1 && "a share of the memory");
  for (NodeGroup &group : cluster.groups)
    group.device.memoryReservedBytes += share * group.device.usableBytes();
  return cluster;
}

} // namespace dpc::cost
