//===- Pending.h - Strategies before they are evaluated ---------*- C++ -*-===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//
#pragma once

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
  size_t family = 0; ///< See familyOf.
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

/// Each family has strategies for which the formulas have similar errors.
inline constexpr size_t numFamilies = 96;
inline size_t familyOf(const Strategy &strategy) {
  size_t recompute = strategy.recompute == Recompute::None        ? 0
                     : strategy.recompute == Recompute::Selective ? 1
                                                                  : 2;
  size_t schedule = strategy.pp == 1                    ? 0
                    : splitsBackward(strategy.schedule) ? 1
                    : strategy.vpp > 1                  ? 2
                                                        : 3;
  size_t flags = (strategy.zero == 3 ? 1 : 0) + (strategy.cp > 1 ? 2 : 0) +
                 (strategy.tp.grid.empty() ? 0 : 4);
  return (recompute * 4 + schedule) * 8 + flags;
}

/// The formulas' errors for one family: sums of ln(evaluation / estimate).
struct Correction {
  double seconds = 0;
  double otherBytes = 0;
  int64_t count = 0;

  double secondsFactor() const { return count ? std::exp(seconds / count) : 1; }
  double bytesFactor() const {
    return count ? std::exp(otherBytes / count) : 1;
  }
};

class Corrections {
public:
  const Correction &operator[](size_t family) const { return all[family]; }
  /// Compares the estimate of `entry` with its evaluation.
  void learn(const Pending &entry, const Evaluation &truth);

private:
  std::vector<Correction> all = std::vector<Correction>(numFamilies);
};

inline double stateBytesOf(const MemoryBreakdown &memory) {
  return memory[MemoryCategory::Parameters] +
         memory[MemoryCategory::Gradients] + memory[MemoryCategory::Optimizer];
}

} // namespace dpc::cost
