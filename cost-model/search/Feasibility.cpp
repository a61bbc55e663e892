//===- Feasibility.cpp - Whether a plan fits the memory -------------------===//
#include "cost-model/search/Feasibility.h"

namespace dpc::cost {

/// Returns by how much `bytes` exceeds `limit`; not 0 if `bytes` is NaN.
static double past(double bytes, double limit) {
  return bytes <= limit ? 0 : bytes - limit;
}

double Feasibility::excessBytes(const Evaluation &evaluation) const {
  double used = evaluation.memory.total(), limit = limitOf(evaluation);
  if (cluster.host.holdsDevices)
    return past(used + evaluation.hostBytes, limit);
  double host =
      evaluation.hostBytes * static_cast<double>(cluster.devicesPerNode());
  double most = cluster.host.memoryBytes;
  return past(used, limit) + (most == 0 ? 0 : past(host, most));
}

} // namespace dpc::cost
