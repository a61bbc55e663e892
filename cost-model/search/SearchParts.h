//===- SearchParts.h - What the search works on -----------------*- C++ -*-===//
//
// Private to Search.cpp and BaselineStrategies.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_SEARCHPARTS_H
#define DPC_COST_MODEL_SEARCH_SEARCHPARTS_H

#include "cost-model/search/Search.h"

#include <cmath>
#include <memory>

namespace dpc::cost {

/// A strategy before it is evaluated.
struct Pending {
  const Strategy *strategy = nullptr; ///< Large: of a list that outlives this.
  Bounds bounds;
  /// Estimate by formula: only decides what is evaluated first. Memory of
  /// parameters and what goes along with them, and the rest.
  double seconds = 0;
  double stateBytes = 0;
  double otherBytes = 0;
  size_t family = 0; ///< Of strategies whose formulas are off in the same way.
  bool isDone = false, isPruned = false;
  bool isAllowed = true;    ///< By the request; else a baseline's only.
  bool isPlain = false;     ///< A layout that a baseline is chosen from.
  bool isEstimated = false; ///< The formulas have been asked.
  /// Made of measured pieces.
  std::unique_ptr<Evaluation> composed;
};

/// Strategies that a thread bounds or estimates at a time.
inline constexpr size_t kPendingAtOnce = 256;

/// Strategies whose formulas are off in the same way.
inline constexpr size_t numFamilies = 96;
inline size_t familyOf(const Strategy &strategy) {
  size_t recompute = strategy.recompute == Recompute::None        ? 0
                     : strategy.recompute == Recompute::Selective ? 1
                                                         : 2;
  size_t schedule = strategy.pp == 1               ? 0
                    : strategy.schedule == ScheduleKind::ZbH1 ? 1
                    : strategy.vpp > 1             ? 2
                                                   : 3;
  size_t flags = (strategy.zero == 3 ? 1 : 0) + (strategy.cp > 1 ? 2 : 0) +
                 (strategy.tp.grid.empty() ? 0 : 4);
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

/// Of all families.
class Corrections {
public:
  const Correction &operator[](size_t family) const { return all[family]; }
  /// Compares a formula with the truth.
  void learn(const Pending &entry, const Evaluation &truth);

private:
  std::vector<Correction> all = std::vector<Correction>(numFamilies);
};

/// Bytes of parameters, gradients and optimizer states.
inline double stateBytesOf(const MemoryBreakdown &memory) {
  return memory[MemoryCategory::Parameters] +
         memory[MemoryCategory::Gradients] + memory[MemoryCategory::Optimizer];
}

/// Megatron's layouts: tp inside a node, pp over the layers, dp the rest.
std::vector<Strategy> megatronStrategies(const Cluster &cluster,
                                         const ModelTotals &totals,
                                         const SearchOptions &options);
/// Whether `strategy` is one of them, as far as its keys say.
bool isMegatronLike(const Strategy &strategy, const Cluster &cluster);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_SEARCHPARTS_H
