//===- Evaluator.h - Who knows what strategies cost -------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_EVALUATOR_H
#define DPC_COST_MODEL_SEARCH_EVALUATOR_H

#include "cost-model/search/Evaluation.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::cost {

/// What the search asks about a model and a cluster. passes/price/ implements
/// it over the IR. `bound` and `blockOf` are called by several threads at once,
/// the other functions by the thread that searches.
class Evaluator {
public:
  virtual ~Evaluator();
  virtual ModelTotals totals() = 0;
  /// Admissible (never above the true values) and cheap.
  virtual Bounds bound(const Strategy &strategy) = 0;
  virtual Evaluation evaluate(const Strategy &strategy) = 0;
  /// Evaluates several strategies, perhaps at the same time. The result has
  /// their order.
  virtual std::vector<Evaluation>
  evaluateMany(const std::vector<Strategy> &strategies);
  /// How many strategies one call of evaluateMany should have.
  virtual int64_t batchSize() const { return 1; }
  /// A key that is equal for strategies assembled from the same segments: a
  /// measurement of one tells about all of them. Empty where there are no such
  /// segments.
  virtual std::string blockOf(const Strategy &) { return {}; }
  /// Each of `blocks` holds strategies of one block. Measures the segments of
  /// each block and composes its strategies from them; gives nothing for a
  /// strategy that cannot be composed. A strategy that certainly takes longer
  /// than `limit` seconds is only bounded.
  virtual std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks, double limit);
  /// The most exact evaluation there is, however long it takes.
  virtual Evaluation evaluateWhole(const Strategy &strategy) {
    return evaluate(strategy);
  }
  /// The same with `Evaluation::detail`. May run while evaluateMany runs.
  virtual Evaluation describe(const Strategy &strategy) {
    return evaluateWhole(strategy);
  }
  /// Prepares what `describe` needs for every strategy. May run while any of
  /// the functions above runs.
  virtual void prepareToDescribe() {}
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_EVALUATOR_H
