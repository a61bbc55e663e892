//===- BranchAndBound.h - Which strategies are evaluated --------*- C++ -*-===//
//
// Private to the search. Candidates are listed and bounded, then evaluated in
// the order of their estimates. Each evaluation corrects the estimates of
// similar candidates. If the number of evaluations is limited, the search tries
// each value of a key after the first round (TriedValues.h). One of every three
// rounds evaluates neighbours (Neighbours.h) of the best candidate so far, and
// the last rounds evaluate those with one change.
// Strategies that share segments are evaluated by blocks instead
// (BlockSearch.h). Search.h gives the pruning rules (P1) and (P2).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/BlockSearch.h"

#include <deque>
#include <tuple>

namespace dpc::cost {

class BranchAndBound {
public:
  BranchAndBound(const SearchProblem &problem, CandidatePool &pool)
      : problem(problem), pool(pool) {}

  /// Returns all strategies that `request` allows, with their bounds. The
  /// entries are valid until the next `search` ends.
  std::vector<Pending> list(const StrategyRequest &request);
  std::vector<Pending> list(std::vector<Strategy> strategies);
  /// Corrects the formulas by the evaluation of a candidate that `search` did
  /// not evaluate.
  void learn(const Candidate &candidate);
  void search(std::vector<Pending> pending);

  /// Returns the best layout of Megatron-LM that has a composed evaluation, if
  /// there is one.
  const std::optional<Candidate> &bestMegatron() const { return megatron; }
  /// Takes the strategies of the last search that need too much memory, but may
  /// be faster than the best candidate so far, the fastest first.
  std::vector<Strategy> takeOutgrown() { return std::move(outgrown); }
  /// Without the seconds.
  const SearchCounts &counts() const { return counted; }

private:
  /// Whether the candidate cannot fit, its excess bytes, whether it does not
  /// seem to fit, and its value.
  using Promise = std::tuple<bool, double, bool, double>;

  Pending bounded(const Strategy &strategy) const;
  void estimate(Pending &entry) const;
  void estimateAll(std::vector<Pending> &pending) const;
  Promise promiseOf(const Pending &entry) const;
  void visitByPromise(const std::vector<Pending> &pending,
                      const std::function<bool(const Pending &)> &accepts,
                      const std::function<bool(size_t)> &visit) const;
  std::vector<size_t>
  mostPromising(const std::vector<Pending> &pending, size_t count,
                const std::vector<const Candidate *> &near = {},
                int changes = 0) const;
  std::string whyPruned(const Pending &entry, double worst, bool isFirst) const;
  void evaluateEach(std::vector<Pending> pending);
  int64_t evaluateValues(std::vector<Pending> &pending, int64_t most);
  int64_t evaluateChanges(std::vector<Pending> &pending, int64_t most);
  std::optional<int64_t> evaluateSome(std::vector<Pending> &pending,
                                      const std::vector<size_t> &chosen,
                                      bool isFirst);
  void searchBlocks(std::vector<Pending> pending);
  void addMegatronLayouts(std::vector<Pending> &pending);
  void keepComposed(const std::vector<Pending> &pending);
  void keepOutgrown(const std::vector<Pending> &pending,
                    const BlockSearch *blocks);
  void countSkipped(std::vector<Pending> &pending, int64_t evaluations);
  void reportProgress(const std::vector<Pending> &pending) const;

  const SearchProblem &problem;
  CandidatePool &pool;
  /// Of strategies that are evaluated one by one.
  Corrections corrections{kErrorsOfFormulas};
  std::vector<Lesson> blockLessons, lessons;
  std::deque<std::vector<Strategy>> listed;
  std::optional<Candidate> megatron;
  std::vector<Strategy> outgrown;
  SearchCounts counted;
};

} // namespace dpc::cost
