//===- SearchParts.h - What the search works on -----------------*- C++ -*-===//
//
// Private to Search.cpp and BaselineStrategies.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCHPARTS_H
#define DPC_COST_MODEL_SEARCHPARTS_H

#include "cost-model/Search.h"

#include <cmath>

namespace dpc::cost {

/// A strategy before it is evaluated.
struct Pending {
  Strategy strategy;
  Bounds bounds;
  /// Estimate by formula: only decides what is evaluated first. Memory of
  /// parameters and what goes along with them, and the rest.
  double seconds = 0;
  double stateBytes = 0;
  double otherBytes = 0;
  size_t family = 0; ///< Of strategies whose formulas are off in the same way.
  bool isDone = false, isPruned = false;
};

/// Strategies whose formulas are off in the same way.
inline constexpr size_t numFamilies = 96;
inline size_t familyOf(const Strategy &strategy) {
  size_t recompute = strategy.recompute == "none"        ? 0
                     : strategy.recompute == "selective" ? 1
                                                         : 2;
  size_t schedule = strategy.pp == 1               ? 0
                    : strategy.schedule == "zb-h1" ? 1
                    : strategy.vpp > 1             ? 2
                                                   : 3;
  size_t flags = (strategy.zero == 3 ? 1 : 0) + (strategy.cp > 1 ? 2 : 0) +
                 (strategy.tpGrid.empty() ? 0 : 4);
  return (recompute * 4 + schedule) * 8 + flags;
}

/// What formulas are off by for one kind of strategies: the mean of the logs of
/// the factors that were found.
struct Correction {
  double seconds = 0;
  double otherBytes = 0;
  int64_t count = 0;

  double secondsFactor() const { return count ? std::exp(seconds / count) : 1; }
  double bytesFactor() const {
    return count ? std::exp(otherBytes / count) : 1;
  }
};

/// Pure data parallelism with the wanted ZeRO stage, over micro-batch sizes.
std::vector<Strategy> dataParallelStrategies(const SearchOptions &options,
                                             int64_t zero);

/// tp inside a node, pp over the layers, dp the rest, with and without
/// recomputation.
std::vector<Strategy> megatronStrategies(const Cluster &cluster,
                                         const ModelTotals &totals,
                                         const SearchOptions &options);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCHPARTS_H
