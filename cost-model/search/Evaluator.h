//===- Evaluator.h - Evaluates strategies for the search --------*- C++ -*-===//
#pragma once

#include "cost-model/search/Evaluation.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::cost {

/// Answers the questions of the search about a model on a cluster;
/// passes/price/ implements the answers. Several threads call `bound` and
/// `blockOf` at once. Only the thread of the search calls the other functions.
class Evaluator {
public:
  virtual ~Evaluator();
  virtual ModelTotals totals() = 0;
  /// Returns cheap bounds that never exceed the true values.
  virtual Bounds bound(const Strategy &strategy) = 0;
  virtual Evaluation evaluate(const Strategy &strategy) = 0;
  /// Evaluates several strategies, possibly at the same time. The results are
  /// in the order of `strategies`.
  virtual std::vector<Evaluation>
  evaluateMany(const std::vector<Strategy> &strategies);
  /// Returns how many strategies one call of evaluateMany should have.
  virtual int64_t batchSize() const { return 1; }
  /// Returns a key that is equal for strategies that are composed from the same
  /// segments. Empty if the strategy cannot be composed.
  virtual std::string blockOf(const Strategy &) { return {}; }
  /// Measures the segments of each block and composes the evaluations of the
  /// block's strategies. A result is nullopt if the strategy cannot be
  /// composed, and a bound if the step certainly takes over `limit` seconds.
  virtual std::vector<std::vector<std::optional<Composition>>>
  compose(const std::vector<std::vector<Strategy>> &blocks, double limit);
  /// Returns the most exact evaluation, even if it takes long.
  virtual Evaluation evaluateWhole(const Strategy &strategy) {
    return evaluate(strategy);
  }
  /// Like evaluateWhole, but also sets `Evaluation::detail`. May run at the
  /// same time as evaluateMany.
  virtual Evaluation describe(const Strategy &strategy) {
    return evaluateWhole(strategy);
  }
  /// Prepares the parts of `describe` that do not depend on the strategy. May
  /// run at the same time as all other functions.
  virtual void prepareToDescribe() {}
};

} // namespace dpc::cost
