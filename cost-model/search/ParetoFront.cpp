//===- ParetoFront.cpp - Throughput against memory ------------------------===//

#include "cost-model/search/ParetoFront.h"

#include <algorithm>

namespace dpc::cost {

void ParetoFront::add(const ParetoPoint &point) {
  // The points before `next` are at least as fast, and the last of them has the
  // least memory.
  auto next = std::upper_bound(front.begin(), front.end(), point,
                               [](const ParetoPoint &a, const ParetoPoint &b) {
                                 return a.stepSeconds < b.stepSeconds;
                               });
  if (next != front.begin() &&
      std::prev(next)->memoryBytes <= point.memoryBytes)
    return;
  auto first = next;
  if (first != front.begin() &&
      std::prev(first)->stepSeconds == point.stepSeconds)
    --first;
  auto last = std::find_if(next, front.end(), [&](const ParetoPoint &other) {
    return other.memoryBytes < point.memoryBytes;
  });
  first = front.erase(first, last);
  front.insert(first, point);
}

void ParetoFront::replace(const ParetoPoint &point) {
  std::erase_if(front, [&](const ParetoPoint &other) {
    return other.strategy == point.strategy;
  });
  add(point);
}

} // namespace dpc::cost
