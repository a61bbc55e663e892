//===- ParetoFront.h - Throughput against memory ----------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_PARETOFRONT_H
#define DPC_COST_MODEL_SEARCH_PARETOFRONT_H

#include "cost-model/strategy/Strategy.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// A strategy that fits, with its time and memory.
struct ParetoPoint {
  Strategy strategy;
  double stepSeconds = 0;
  double memoryBytes = 0;
  /// See Candidate::method.
  std::string method;
};

/// Strategies of which none is both faster and smaller than another.
class ParetoFront {
public:
  /// Adds a point unless an equal or better one is there.
  void add(const ParetoPoint &point);
  /// Replaces the points of the same strategy by a more exact one.
  void replace(const ParetoPoint &point);
  /// Sorted by rising seconds, and therefore by falling memory.
  const std::vector<ParetoPoint> &points() const { return front; }

private:
  std::vector<ParetoPoint> front;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_PARETOFRONT_H
