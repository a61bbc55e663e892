//===- StrategySearch.h - The search itself ---------------------*- C++ -*-===//
//
// Private to Search*.cpp and BaselineStrategies.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_STRATEGYSEARCH_H
#define DPC_COST_MODEL_SEARCH_STRATEGYSEARCH_H

#include "cost-model/search/SearchParts.h"

#include <deque>
#include <functional>
#include <tuple>

namespace dpc::cost {

/// Rank by kind: fits, too large, cannot be built, not evaluated.
inline int kindOf(const Candidate &candidate) {
  if (!candidate.skipped.empty())
    return 3;
  if (!candidate.evaluation.rejected.empty())
    return 2;
  return candidate.fits ? 0 : 1;
}

class StrategySearch {
public:
  StrategySearch(const Cluster &cluster, Evaluator &evaluator,
                 const SearchOptions &options)
      : cluster(cluster), evaluator(evaluator), options(options) {}

  SearchResult run();

private:
  Pending bounded(const Strategy &strategy) const;
  void estimate(Pending &entry) const;
  std::vector<Pending> boundAll(const StrategyRequest &request);
  bool fits(const Evaluation &evaluation) const;
  void offload();
  bool anyFits();
  const Candidate *find(const Pending &entry) const;
  const Candidate *bestSoFar() const;
  using Promise = std::tuple<bool, double, bool, double>;
  Promise promiseOf(const Pending &entry) const;
  std::vector<size_t> mostPromising(const std::vector<Pending> &pending,
                                    size_t count, bool isNear) const;
  bool isKnown(const Strategy &strategy);
  void addSkipped(std::vector<Pending> &pending, int64_t evaluations);
  void evaluateAll(std::vector<Pending> pending);
  void searchAll(const StrategyRequest &request);
  void searchPending(std::vector<Pending> pending);
  void keepComposed(const std::vector<Pending> &pending);
  void addPlain(std::vector<Pending> &pending);
  bool isPruned(const Pending &entry, double worst) const;
  std::string whyPruned(const Pending &entry, double worst, bool isFirst) const;
  Candidate evaluate(const Strategy &strategy);
  void take(Candidate &candidate, Evaluation evaluation) const;
  double value(double seconds, double bytes) const {
    return options.objective == Objective::Memory ? bytes : seconds;
  }
  double valueOf(const Candidate &candidate) const {
    return value(candidate.evaluation.stepSeconds,
                 candidate.evaluation.memory.total());
  }
  /// The value a candidate must beat to be kept: of the `top` best that fit.
  double worstKept() const;
  double leastKept() const;
  bool isFarBehind() const;
  void sortAll();
  bool isNearLimit(const Candidate &candidate) const;
  void settle(size_t most);
  void confirmWinner(std::function<void()> meanwhile = nullptr);
  void explainAll();
  std::string explain(const Candidate &candidate) const;
  void addDataParallel();
  void addMegatron();
  void addSingle();
  bool isSame(const Candidate &a, const Candidate &b) const;
  /// How many of the best are looked at closely. What is shown may be fewer,
  /// and must not change what is found.
  size_t kept() const {
    return static_cast<size_t>(std::max<int64_t>(options.top, 10));
  }
  void keepBaselines();
  void addPoint(const Candidate &candidate);
  void finishFront();
  const Baseline *wellKnownPlan() const;
  std::vector<Candidate> evaluatePath(const std::vector<Strategy> &path);
  void findChanges();
  void tell(const std::vector<Pending> &pending) const;
  bool mayFit(const Candidate &candidate);
  void explainBaseline(Candidate &candidate) const;
  Candidate bestFormula(const std::vector<Strategy> &strategies) const;
  Candidate byFormula(const Strategy &strategy) const;
  std::vector<Candidate> byGraph(std::vector<Candidate> estimates);
  std::optional<Candidate> nextSmaller(std::vector<Strategy> &strategies,
                                       const Candidate &tried) const;
  std::vector<Candidate> bestOfEach(std::vector<std::vector<Strategy>> families,
                                    bool isFirstEasy);
  std::string overMemory(double bytes, double limit) const;
  /// The memory for plans of the device that `evaluation` fills most.
  double limitOf(const Evaluation &evaluation) const {
    return evaluation.memoryLimitBytes > 0 ? evaluation.memoryLimitBytes
                                           : result.memoryLimitBytes;
  }
  const Candidate *fasterButTooLarge() const;
  void findBinding();
  std::string slowestPart() const;

  const Cluster &cluster;
  Evaluator &evaluator;
  const SearchOptions &options;
  SearchResult result;
  Corrections corrections;
  /// What is pending.
  std::deque<std::vector<Strategy>> listed;
  /// The best of Megatron's layouts that were made of measured pieces.
  std::optional<Candidate> megatron;
  Candidate single; ///< One of the devices alone.
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_STRATEGYSEARCH_H
