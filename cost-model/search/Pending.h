//===- Pending.h - Strategies before they are evaluated ---------*- C++ -*-===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/ErrorModel.h"
#include "cost-model/search/Search.h"

#include <cmath>
#include <memory>

namespace dpc::cost {

struct Pending {
  const Strategy *strategy = nullptr; ///< Outlives this entry.
  Bounds bounds;
  /// The estimate by formula: the step's seconds, the bytes of parameters,
  /// gradients and optimizer states, and all other bytes. The estimate affects
  /// only the order of evaluations.
  double seconds = 0;
  double stateBytes = 0;
  double otherBytes = 0;
  size_t place = SIZE_MAX; ///< in the Corrections of the search, if any
  /// The number of its block (BlockSearch.h), if any.
  size_t block = SIZE_MAX;
  bool isDone = false, isPruned = false;
  bool isAllowed = true; ///< False for a strategy that may only be a baseline.
  bool isMegatron = false;
  bool isEstimated = false;
  /// The composed evaluation, or null.
  std::unique_ptr<Evaluation> composed;
};

/// How many strategies a thread bounds or estimates at a time.
inline constexpr size_t kPendingAtOnce = 256;

inline double stateBytesOf(const MemoryBreakdown &memory) {
  return memory[MemoryCategory::Parameters] +
         memory[MemoryCategory::Gradients] + memory[MemoryCategory::Optimizer];
}

/// Compares the estimate of `entry` with its evaluation.
Lesson lessonOf(const Pending &entry, const Evaluation &truth);

} // namespace dpc::cost
