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

/// Strategies, none of which is both faster and smaller than another.
class ParetoFront {
public:
  /// Adds a point unless the front has an equal or better one.
  void add(const ParetoPoint &point);
  /// Replaces the points with the strategy of `point` by `point`, which is more
  /// exact.
  void replace(const ParetoPoint &point);
  /// Sorted by rising seconds, and therefore by falling memory.
  const std::vector<ParetoPoint> &points() const { return front; }

private:
  std::vector<ParetoPoint> front;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_PARETOFRONT_H
