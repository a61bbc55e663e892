//===- Pending.cpp - Strategies before they are evaluated -----------------===//
#include "cost-model/search/Pending.h"

namespace dpc::cost {

Lesson lessonOf(const Pending &entry, const Evaluation &truth) {
  Lesson lesson{strategyFeatures(*entry.strategy), std::nullopt, std::nullopt};
  double bytes = truth.memory.total() - stateBytesOf(truth.memory);
  if (!truth.rejected.empty() || truth.stepSeconds <= 0 || bytes <= 0 ||
      entry.seconds <= 0 || entry.otherBytes <= 0)
    return lesson;
  lesson.seconds = std::log(truth.stepSeconds / entry.seconds);
  lesson.bytes = std::log(bytes / entry.otherBytes);
  return lesson;
}

} // namespace dpc::cost
