//===- ParetoFront.h - Throughput against memory ----------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_PARETOFRONT_H
#define DPC_COST_MODEL_SEARCH_PARETOFRONT_H

#include "cost-model/strategy/Strategy.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// A strategy that fits, and what it takes.
struct ParetoPoint {
  Strategy strategy;
  double stepSeconds = 0;
  double memoryBytes = 0;
  /// As Candidate::method, or "pieces": made of what strategies share.
  std::string method;
};

/// The strategies of which none is faster without taking more memory, and none
/// takes less without being slower.
class ParetoFront {
public:
  /// Of equal points the first one stays.
  void add(const ParetoPoint &point);
  /// Takes what is known better of a strategy instead of what was added.
  void replace(const ParetoPoint &point);
  /// By rising seconds, hence falling memory.
  const std::vector<ParetoPoint> &points() const { return front; }

private:
  std::vector<ParetoPoint> front;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_PARETOFRONT_H
