//===- Evaluator.h - Evaluates strategies for the search --------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_EVALUATOR_H
#define DPC_COST_MODEL_SEARCH_EVALUATOR_H

#include "cost-model/search/Evaluation.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::cost {

/// The questions of the search about a model on a cluster. passes/price/
/// answers them from the IR. Several threads call `bound` and `blockOf` at
/// once; only the thread that searches calls the other functions.
class Evaluator {
public:
  virtual ~Evaluator();
  virtual ModelTotals totals() = 0;
  /// Admissible (never above the true values) and cheap.
  virtual Bounds bound(const Strategy &strategy) = 0;
  virtual Evaluation evaluate(const Strategy &strategy) = 0;
  /// Evaluates several strategies, possibly at the same time. The results are
  /// in the order of `strategies`.
  virtual std::vector<Evaluation>
  evaluateMany(const std::vector<Strategy> &strategies);
  /// How many strategies one call of evaluateMany should have.
  virtual int64_t batchSize() const { return 1; }
  /// A key that is equal for strategies that are assembled from the same
  /// segments, so that one measurement serves all of them. Empty if the
  /// strategy cannot be assembled from segments.
  virtual std::string blockOf(const Strategy &) { return {}; }
  /// Each of `blocks` holds strategies of one block. Measures the segments of
  /// each block and composes its strategies from them. The result is nullopt
  /// for a strategy that cannot be composed. A strategy that certainly takes
  /// longer than `limit` seconds is only bounded.
  virtual std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks, double limit);
  /// Returns the most exact evaluation, even if it takes long.
  virtual Evaluation evaluateWhole(const Strategy &strategy) {
    return evaluate(strategy);
  }
  /// Like evaluateWhole, but also sets `Evaluation::detail`. May run while
  /// evaluateMany runs.
  virtual Evaluation describe(const Strategy &strategy) {
    return evaluateWhole(strategy);
  }
  /// Prepares what `describe` needs for every strategy. May run while any of
  /// the functions above runs.
  virtual void prepareToDescribe() {}
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_EVALUATOR_H
