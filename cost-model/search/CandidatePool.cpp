//===- CandidatePool.cpp - What a search has evaluated --------------------===//
#include "cost-model/search/CandidatePool.h"

#include "cost-model/search/FormulaEstimate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

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
  candidate.evaluation = estimateByFormula(problem.cluster, problem.totals,
                                           problem.gemmTimes, strategy);
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
  if (candidate.evaluation.isComposed && exact.rejected.empty())
    errors.teach({strategyFeatures(candidate.strategy),
                  std::log(exact.stepSeconds / seconds),
                  std::log(exact.memory.total() / bytes)});
  candidate =
      candidateOf(problem, Strategy(candidate.strategy), std::move(exact));
  candidate.composedSeconds = seconds;
  candidate.composedBytes = bytes;
}

void CandidatePool::correctComposed() {
  for (Candidate &candidate : candidates) {
    Evaluation &evaluation = candidate.evaluation;
    if (!evaluation.isComposed || !evaluation.rejected.empty())
      continue;
    size_t place = errors.addPlace(strategyFeatures(candidate.strategy));
    evaluation.stepSeconds =
        candidate.composedSeconds * errors.secondsFactor(place);
    double bytes = candidate.composedBytes * errors.bytesFactor(place);
    double factor = bytes / evaluation.memory.total();
    for (double &category : evaluation.memory.bytes)
      category *= factor;
    candidate.fits = problem.feasibility.fits(evaluation);
  }
}

double CandidatePool::gainOf(const Candidate &candidate) {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate &other : candidates)
    if (!other.evaluation.isComposed && other.method != "formula" && other.fits)
      least = std::min(least, problem.valueOf(other));
  if (!std::isfinite(least))
    return least;
  size_t place = errors.addPlace(strategyFeatures(candidate.strategy));
  const Evaluation &mean = candidate.evaluation;
  const double value = problem.valueOf(candidate), bytes = mean.memory.total();
  if (problem.options.objective == Objective::Memory)
    return expectedImprovement(value, value * errors.bytesDeviation(place),
                               least);
  double fits =
      probabilityBelow(std::log(problem.feasibility.limitOf(mean) / bytes) /
                       errors.bytesDeviation(place));
  return fits * expectedImprovement(
                    value, value * errors.secondsDeviation(place), least);
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
