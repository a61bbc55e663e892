//===- Pending.cpp - Strategies before they are evaluated -----------------===//
#include "cost-model/search/Pending.h"

namespace dpc::cost {

void Corrections::learn(const Pending &entry, const Evaluation &truth) {
  double bytes = truth.memory.total() - stateBytesOf(truth.memory);
  if (!truth.rejected.empty() || truth.stepSeconds <= 0 || bytes <= 0 ||
      entry.seconds <= 0 || entry.otherBytes <= 0)
    return;
  Correction &correction = all[entry.family];
  correction.seconds += std::log(truth.stepSeconds / entry.seconds);
  correction.otherBytes += std::log(bytes / entry.otherBytes);
  ++correction.count;
}

} // namespace dpc::cost
