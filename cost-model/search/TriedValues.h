//===- TriedValues.h - The values of keys that were tried -------*- C++ -*-===//
//
// Private to the search. The formulas may be wrong in the same way for all
// strategies with one value of a key. A search learns such an error when it
// tries one of them, so it tries each value once. Like the initial design of
// Efficient Global Optimization (Jones et al., 1998), this comes before the
// search follows expected improvements.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/strategy/Strategy.h"

#include <set>
#include <utility>

namespace dpc::cost {

/// A new value is only tried with strategies that are estimated to be at most
/// this many times as slow, or as large, as the best plan.
inline constexpr double kWorstValue = 1.25;

class TriedValues {
public:
  enum class Keys {
    All,
    OfBlocks ///< The keys that strategies of a block have in common.
  };
  explicit TriedValues(Keys keys) : keys(keys) {}

  /// Adds the values of the keys of `strategy`. Returns whether one is new.
  bool add(const Strategy &strategy);

private:
  Keys keys;
  std::set<std::pair<std::string_view, int64_t>> values;
};

} // namespace dpc::cost
