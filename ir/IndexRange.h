//===- IndexRange.h - The values that an integer tensor can have -*- C++
//-*-===//
#pragma once

#include "ir/TensorUtils.h"

#include <limits>

namespace dpc {

/// Every element of a tensor of integers is from `low` to `high`. The limits of
/// the type mean that a bound is unknown.
struct IndexRange {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  int64_t low = kNone, high = kEnd;

  bool isWithin(int64_t first, int64_t last) const {
    return low >= first && high <= last;
  }
};

/// Finds bounds of `value` from the ops that compute it. Nothing is known of
/// inputs.
IndexRange rangeOf(mlir::Value value);

/// Returns the integer that every element of `value` has, if it is known.
std::optional<int64_t> splatInteger(mlir::Value value);

/// Returns n if `select` adds n to negative indices and keeps the others.
std::optional<int64_t> wrapOf(SelectOp select);

/// Whether each element of `indices` is a constant or an element of an input.
bool isInputOrConstant(mlir::Value indices);

} // namespace dpc
