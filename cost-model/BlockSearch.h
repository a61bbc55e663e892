//===- BlockSearch.h - Which blocks are measured ----------------*- C++ -*-===//
//
// Private to Search.cpp. Strategies are grouped into blocks that share what is
// measured (Evaluator::blockOf). What a block promises is the least of what its
// strategies do: by formula, corrected by what was measured of strategies of
// their kind. Blocks are measured, several at a time,
//   * the neighbours of the best one so far,
//   * the most promising one of all, and
//   * the most promising one of the plain layouts that baselines are, in turn.
// After that all strategies of a block are known, so that few measurements tell
// about many strategies. Deterministic, whatever runs at once.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_BLOCKSEARCH_H
#define DPC_COST_MODEL_BLOCKSEARCH_H

#include "cost-model/SearchParts.h"

#include <functional>

namespace dpc::cost {

class BlockSearch {
public:
  BlockSearch(Evaluator &evaluator, std::vector<Pending> &pending,
              Corrections &corrections, Objective objective,
              double memoryLimitBytes, int64_t top);

  /// Measures up to `most` blocks; of plain layouts only where not `all`.
  void run(int64_t most, bool all);
  int64_t measured() const { return count; }
  /// Called after every measurement.
  std::function<void()> onMeasured;

private:
  struct Block {
    std::vector<size_t> members;
    bool isMeasured = false;
  };
  /// Does not fit for sure, does not seem to fit, value.
  using Promise = std::tuple<bool, bool, double>;
  enum class Turn { Near, Any, Plain };

  Promise promiseOf(const Pending &entry) const;
  std::optional<Promise> promiseOf(const Block &block, Turn turn,
                                   const Pending *near) const;
  std::vector<size_t> choose(Turn turn, size_t count) const;
  void measure(const std::vector<size_t> &chosen);
  const Pending *best() const;
  double limit() const;
  double value(double seconds, double bytes) const {
    return objective == Objective::Memory ? bytes : seconds;
  }

  Evaluator &evaluator;
  std::vector<Pending> &pending;
  Corrections &corrections;
  Objective objective;
  double memoryLimitBytes;
  int64_t top;
  std::vector<Block> blocks;
  int64_t count = 0; ///< Of measured ones.
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_BLOCKSEARCH_H
