//===- SoftwareMemory.cpp - The memory of other frameworks ----------------===//
#include "cost-model/machine/SoftwareMemory.h"

#include <algorithm>

namespace dpc::cost {

StateBytes stateBytes(const Software &software, DType type, int64_t zero,
                      double ranks) {
  StateBytes bytes = {2, software.gradientBytesBF16, software.updateBytesBF16};
  if (type == DType::F16)
    bytes = {2, software.gradientBytesF16, software.updateBytesF16};
  else if (type != DType::BF16)
    bytes = {4, 4, 8};
  auto share = [&](int64_t stage) { return zero >= stage ? ranks : 1.0; };
  return {bytes.parameter / share(3), bytes.gradient / share(2),
          bytes.update / share(1)};
}

MemoryBreakdown heldMemory(const Cluster &cluster, MemoryBreakdown counted) {
  const Software &software = cluster.software;
  if (!software.keepsMemory)
    return counted;
  double device = 0;
  for (const NodeGroup &group : cluster.groups)
    device = std::max(device, group.device.memoryBytes);
  counted[MemoryCategory::Communication] += software.reservedBytes;
  double used =
      counted[MemoryCategory::Activations] + counted[MemoryCategory::Workspace];
  double free = std::max(0.0, device - counted.total());
  double slack = std::min((software.activationSlack - 1) * used, free);
  for (MemoryCategory category :
       {MemoryCategory::Activations, MemoryCategory::Workspace})
    counted[category] *= used > 0 ? 1 + slack / used : 1;
  return counted;
}

} // namespace dpc::cost
