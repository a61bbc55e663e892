//===- CandidatePool.cpp - What a search has evaluated --------------------===//
#include "cost-model/search/CandidatePool.h"

#include "cost-model/search/FormulaEstimate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

namespace dpc::cost {

CandidateKind kindOf(const Candidate &candidate) {
  if (!candidate.skipped.empty())
    return CandidateKind::NotEvaluated;
  if (!candidate.evaluation.rejected.empty())
    return CandidateKind::Rejected;
  return candidate.fits ? CandidateKind::Fits : CandidateKind::TooLarge;
}

Candidate candidateOf(const SearchProblem &problem, const Strategy &strategy,
                      Evaluation evaluation) {
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.evaluation = std::move(evaluation);
  candidate.fits = candidate.evaluation.rejected.empty() &&
                   problem.feasibility.fits(candidate.evaluation);
  candidate.method = candidate.evaluation.isComposed ? "pieces"
                     : candidate.evaluation.isFolded ? "folded"
                                                     : "graph";
  if (candidate.evaluation.isComposed) {
    candidate.composedSeconds = candidate.evaluation.stepSeconds;
    candidate.composedBytes = candidate.evaluation.memory.total();
  }
  return candidate;
}

Candidate estimatedCandidate(const SearchProblem &problem,
                             const Strategy &strategy) {
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.evaluation =
      estimateByFormula(problem.cluster, problem.totals, strategy);
  candidate.fits = problem.feasibility.fits(candidate.evaluation);
  candidate.method = "formula";
  return candidate;
}

bool isBefore(const SearchProblem &problem, const Candidate &a,
              const Candidate &b) {
  CandidateKind kind = kindOf(a);
  if (kind != kindOf(b))
    return kind < kindOf(b);
  if (kind == CandidateKind::TooLarge)
    return a.evaluation.memory.total() < b.evaluation.memory.total();
  return kind == CandidateKind::Fits && problem.valueOf(a) < problem.valueOf(b);
}

bool mayFitNearLimit(const SearchProblem &problem, const Candidate &candidate) {
  constexpr double kError = 1.06; // Margin for errors of composed memory.
  return candidate.evaluation.memory.total() <
         kError * problem.feasibility.limitBytes();
}

void CandidatePool::confirm(Candidate &candidate, Evaluation exact) {
  assert(!exact.isComposed && "exact evaluations are not composed");
  double seconds = candidate.composedSeconds, bytes = candidate.composedBytes;
  candidate =
      candidateOf(problem, Strategy(candidate.strategy), std::move(exact));
  candidate.composedSeconds = seconds;
  candidate.composedBytes = bytes;
}

/// Strategies with the same key have about the same error when composed.
static auto errorKey(const Strategy &strategy) {
  return std::tuple(strategy.pp == 1, strategy.schedule, strategy.recompute,
                    strategy.zero == 3, strategy.cp > 1, strategy.sp,
                    strategy.offload);
}

/// Their times have about the same error if only these keys agree.
static auto timeKey(const Strategy &strategy) {
  return std::tuple(strategy.pp == 1, strategy.schedule, strategy.zero == 3,
                    strategy.offload);
}

namespace {

/// The mean error of composed numbers.
struct ComposedError {
  double seconds = 0, bytes = 0; ///< sums of logarithms
  double count = 0;

  void add(const Candidate &candidate) {
    const Evaluation &exact = candidate.evaluation;
    seconds += std::log(exact.stepSeconds / candidate.composedSeconds);
    bytes += std::log(exact.memory.total() / candidate.composedBytes);
    ++count;
  }
  double secondsFactor() const { return count ? std::exp(seconds / count) : 1; }
  double bytesFactor() const { return count ? std::exp(bytes / count) : 1; }
};

} // namespace

/// Whether an exact evaluation replaced a composed one.
static bool isConfirmed(const Candidate &candidate) {
  return !candidate.evaluation.isComposed && candidate.composedSeconds > 0 &&
         candidate.evaluation.rejected.empty();
}

bool CandidatePool::knowsErrorOf(const Strategy &strategy) const {
  return std::ranges::any_of(candidates, [&](const Candidate &candidate) {
    return isConfirmed(candidate) &&
           errorKey(candidate.strategy) == errorKey(strategy);
  });
}

void CandidatePool::correctComposed() {
  std::map<decltype(errorKey(Strategy())), ComposedError> errors;
  std::map<decltype(timeKey(Strategy())), ComposedError> ofTimes;
  for (const Candidate &candidate : candidates) {
    if (!isConfirmed(candidate))
      continue;
    errors[errorKey(candidate.strategy)].add(candidate);
    ofTimes[timeKey(candidate.strategy)].add(candidate);
  }
  for (Candidate &candidate : candidates) {
    Evaluation &evaluation = candidate.evaluation;
    if (!evaluation.isComposed || !evaluation.rejected.empty())
      continue;
    const ComposedError &error = errors[errorKey(candidate.strategy)];
    const ComposedError &ofTime =
        error.count ? error : ofTimes[timeKey(candidate.strategy)];
    evaluation.stepSeconds = candidate.composedSeconds * ofTime.secondsFactor();
    double bytes = candidate.composedBytes * error.bytesFactor();
    double factor = bytes / evaluation.memory.total();
    for (double &category : evaluation.memory.bytes)
      category *= factor;
    candidate.fits = problem.feasibility.fits(evaluation);
  }
}

bool CandidatePool::anyFits() const {
  return std::any_of(candidates.begin(), candidates.end(),
                     [](const Candidate &candidate) { return candidate.fits; });
}

void CandidatePool::sort() {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate &a, const Candidate &b) {
                     return isBefore(problem, a, b);
                   });
}

const Candidate *CandidatePool::find(const Strategy &strategy) const {
  auto found = std::find_if(candidates.begin(), candidates.end(),
                            [&](const Candidate &candidate) {
                              return candidate.strategy == strategy;
                            });
  return found == candidates.end() ? nullptr : &*found;
}

bool CandidatePool::adoptEvaluated(const Strategy &strategy) {
  auto isSame = [&](const Candidate &candidate) {
    return candidate.strategy == strategy && candidate.method != "formula";
  };
  if (std::any_of(candidates.begin(), candidates.end(), isSame))
    return true;
  for (const Baseline &baseline : baselines)
    if (isSame(baseline.candidate)) {
      candidates.push_back(baseline.candidate);
      return true;
    }
  return false;
}

double CandidatePool::worstShown() const {
  std::vector<double> values;
  for (const Candidate &candidate : candidates)
    if (candidate.fits)
      values.push_back(problem.valueOf(candidate));
  size_t shown = problem.shown();
  if (values.size() < shown)
    return std::numeric_limits<double>::infinity();
  std::nth_element(values.begin(), values.begin() + (shown - 1), values.end());
  return values[shown - 1];
}

double CandidatePool::best() const {
  double best = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : candidates)
    if (candidate.fits)
      best = std::min(best, problem.valueOf(candidate));
  return best;
}

const Candidate *
CandidatePool::bestToExtend(std::optional<bool> hasStages) const {
  // A plan that exceeds the limit by 5 % counts as 22 % slower.
  constexpr double kExponent = 4;
  const Candidate *best = nullptr;
  double least = 0;
  auto consider = [&](const Candidate &candidate) {
    const Evaluation &evaluation = candidate.evaluation;
    if (candidate.method == "formula" || !evaluation.rejected.empty() ||
        !problem.allows(candidate.strategy) ||
        hasStages.value_or(candidate.strategy.pp > 1) !=
            (candidate.strategy.pp > 1))
      return;
    double excess =
        evaluation.memory.total() / problem.feasibility.limitOf(evaluation);
    double value =
        problem.valueOf(candidate) * std::pow(std::max(1.0, excess), kExponent);
    if (!best || value < least) {
      best = &candidate;
      least = value;
    }
  };
  for (const Candidate &candidate : candidates)
    consider(candidate);
  for (const Baseline &baseline : baselines)
    consider(baseline.candidate);
  return best;
}

void CandidatePool::updateBaselines(const Candidate &candidate,
                                    bool replacesEstimates) {
  for (Baseline &baseline : baselines)
    if (baseline.candidate.strategy == candidate.strategy &&
        (replacesEstimates || baseline.candidate.method != "formula"))
      baseline.candidate = candidate;
}

void CandidatePool::addToFront(const Candidate &candidate) {
  if (!candidate.fits || candidate.method == "formula" ||
      !problem.allows(candidate.strategy))
    return;
  const Evaluation &evaluation = candidate.evaluation;
  ParetoPoint point{candidate.strategy, evaluation.stepSeconds,
                    evaluation.memory.total(), candidate.method};
  if (evaluation.isComposed)
    front.add(point);
  else
    front.replace(point);
}

ParetoFront CandidatePool::takeFront() {
  for (const Candidate &candidate : candidates)
    addToFront(candidate);
  for (const Baseline &baseline : baselines)
    addToFront(baseline.candidate);
  return std::move(front);
}

} // namespace dpc::cost
