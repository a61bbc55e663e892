//===- ValueFacts.h - distinct values in narrower types ---------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::rt {

/// Collects distinct values of each element of a sample: of numbers, and of
/// integers from which the model computes numbers.
class ValueFacts {
public:
  ValueFacts() = default; ///< collects nothing
  /// A sample of `port` has `count` elements.
  ValueFacts(const Port &port, int64_t count);

  void add(const std::byte *sample);
  /// Says that values of an element become equal in the type `as`, or "".
  /// Rounding that only perturbs values is usual.
  std::string text(const std::string &name, DType as) const;

private:
  DType dtype = DType::F32;
  int64_t added = 0;
  /// Some values of each element, in ascending order.
  std::vector<std::vector<double>> values;
};

} // namespace dpc::rt
