//===- Feasibility.cpp - Whether a plan fits the memory -------------------===//
#include "cost-model/search/Feasibility.h"

#include <algorithm>

namespace dpc::cost {

double Feasibility::excessBytes(const Evaluation &evaluation) const {
  double used = evaluation.memory.total(), limit = limitOf(evaluation);
  if (cluster.host.holdsDevices)
    return std::max(0.0, used + evaluation.hostBytes - limit);
  double host =
      evaluation.hostBytes * static_cast<double>(cluster.devicesPerNode());
  double hostExcess = cluster.host.memoryBytes == 0
                          ? 0
                          : std::max(0.0, host - cluster.host.memoryBytes);
  return std::max(0.0, used - limit) + hostExcess;
}

} // namespace dpc::cost
