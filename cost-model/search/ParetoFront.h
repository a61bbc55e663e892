//===- ParetoFront.h - Throughput against memory ----------------*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Strategy.h"

#include <string>
#include <vector>

namespace dpc::cost {

struct ParetoPoint {
  Strategy strategy;
  double stepSeconds = 0;
  double memoryBytes = 0;
  /// See Candidate::method.
  std::string method;
};

/// A set of strategies in which no strategy is both faster and smaller than
/// another one.
class ParetoFront {
public:
  void add(const ParetoPoint &point);
  /// Replaces points with the same strategy by `point`, a more exact one.
  void replace(const ParetoPoint &point);
  /// Returns the points by rising seconds, and so by falling memory.
  const std::vector<ParetoPoint> &points() const { return front; }

private:
  std::vector<ParetoPoint> front;
};

} // namespace dpc::cost
