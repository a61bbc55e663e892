//===- SearchSettle.cpp - The first candidate, known for certain ----------===//
//
// What was made of pieces, or folded, is off by a little. Until the first one
// is known as well as is asked for, and nobody is left who may be better, those
// that promise most are evaluated by themselves.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"
#include "cost-model/search/StrategySearch.h"

#include <algorithm>
#include <cassert>

namespace dpc::cost {

/// Pieces are off by a little.
bool StrategySearch::isNearLimit(const Candidate &candidate) const {
  constexpr double kOff = 1.06;
  return candidate.evaluation.memory.total() < kOff * result.memoryLimitBytes;
}

/// Whether the first one need not be known better.
bool StrategySearch::isFarBehind() const {
  return result.hasWinner() &&
         valueOf(result.candidates.front()) > options.closeLookUpTo;
}

/// Evaluates by themselves those that were made of pieces, until the first one
/// is evaluated and none is left that may be better; past `most` of them the
/// first one only, and the second beside it, which costs no time.
void StrategySearch::settle(size_t most) {
  constexpr size_t kAtOnce = 2;
  // Of chunks all messages count, also those sent ahead: some are asked.
  constexpr double kOff = 0.995, kOffOfChunks = 1.015;
  constexpr size_t kChunks = 4;
  size_t evaluated = 0;
  auto isOpen = [](const Candidate &candidate) {
    return candidate.evaluation.isComposed &&
           candidate.evaluation.rejected.empty();
  };
  auto mayBeBetter = [&](const Candidate &candidate) {
    if (!isOpen(candidate))
      return false;
    if (&candidate == &result.candidates.front())
      return true;
    const Candidate &first = result.candidates.front();
    bool mayBeOff = candidate.strategy.vpp > 1 && evaluated < kChunks;
    double off = mayBeOff ? kOffOfChunks : kOff;
    return evaluated < most && isNearLimit(candidate) &&
           (!first.fits || valueOf(candidate) < off * valueOf(first));
  };
  sortAll();
  while (!isFarBehind()) {
    std::vector<size_t> next;
    for (size_t i = 0; i < result.candidates.size(); ++i)
      if (mayBeBetter(result.candidates[i]))
        next.push_back(i);
    // The first one, and the fastest of the others.
    std::stable_sort(next.begin(), next.end(), [&](size_t a, size_t b) {
      return std::pair(a > 0, valueOf(result.candidates[a])) <
             std::pair(b > 0, valueOf(result.candidates[b]));
    });
    if (next.empty())
      return;
    next.resize(std::min(next.size(), kAtOnce));
    evaluated += next.size();
    // Pieces promise rather too much: the second one is often asked next.
    if (next.size() == 1 && next[0] == 0 && result.candidates.size() > 1 &&
        isOpen(result.candidates[1]) && isNearLimit(result.candidates[1]))
      next.push_back(1);
    std::vector<Strategy> strategies;
    strategies.reserve(next.size());
    for (size_t i : next)
      strategies.push_back(result.candidates[i].strategy);
    std::vector<Evaluation> answers = evaluator.evaluateMany(strategies);
    for (size_t k = 0; k < next.size(); ++k) {
      assert(!answers[k].isComposed && "evaluations are no compositions");
      take(result.candidates[next[k]], std::move(answers[k]));
    }
    sortAll();
  }
}

/// Evaluates the first one whole where that is asked for, or where it might not
/// fit, until it is and still the first. Whoever comes first instead is
/// evaluated by itself. That takes one thread a while; `meanwhile` is run next
/// to the first one.
void StrategySearch::confirmWinner(std::function<void()> meanwhile) {
  constexpr double kRough = 0.95; // What rough evaluations are off by.
  for (settle(0); result.hasWinner() && !isFarBehind(); settle(0)) {
    Candidate &winner = result.candidates.front();
    const Evaluation &evaluation = winner.evaluation;
    bool mayNotFit = evaluation.isRough && evaluation.memory.total() >
                                               kRough * result.memoryLimitBytes;
    if (!evaluation.isFolded || !(options.confirmsWinner || mayNotFit))
      break;
    Evaluation whole;
    parallelFor(meanwhile ? 2 : 1, 1, [&](size_t i) {
      if (i == 0)
        whole = evaluator.describe(winner.strategy);
      else
        meanwhile();
    });
    meanwhile = nullptr;
    take(winner, std::move(whole));
    for (Baseline &baseline : result.baselines)
      if (baseline.candidate.strategy == winner.strategy &&
          baseline.candidate.method != "formula")
        baseline.candidate = winner;
  }
  if (meanwhile)
    meanwhile();
}

} // namespace dpc::cost
