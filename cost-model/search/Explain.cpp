//===- Explain.cpp - Why candidates lose ----------------------------------===//
#include "cost-model/search/Explain.h"

#include "cost-model/machine/ComputeCost.h"
#include "cost-model/report/Report.h"

#include <algorithm>

namespace dpc::cost {

std::string overMemory(double bytes, double limit) {
  return "memory " + formatBytes(bytes) + " > " + formatBytes(limit);
}

static std::string whyTooLarge(const SearchProblem &problem,
                               const Evaluation &evaluation) {
  const Cluster &cluster = problem.cluster;
  double used = evaluation.memory.total();
  double limit = problem.feasibility.limitOf(evaluation);
  if (cluster.host.holdsDevices && evaluation.hostBytes > 0)
    return overMemory(used + evaluation.hostBytes, limit) + ", offloaded " +
           formatBytes(evaluation.hostBytes) + " among it";
  if (used <= limit)
    return "offloaded " + formatBytes(evaluation.hostBytes) + " a rank, " +
           std::to_string(cluster.devicesPerNode()) + " ranks a node > " +
           formatBytes(cluster.host.memoryBytes) + " of host memory";
  return overMemory(used, limit);
}

static std::string whyNotChosen(const SearchProblem &problem,
                                const SearchResult &result,
                                const Candidate &candidate) {
  const Evaluation &evaluation = candidate.evaluation;
  if (!candidate.skipped.empty())
    return candidate.skipped;
  if (!evaluation.rejected.empty())
    return evaluation.rejected;
  if (!candidate.fits)
    return whyTooLarge(problem, evaluation);
  const Evaluation &winner = result.candidates.front().evaluation;
  if (problem.options.objective == Objective::Memory) {
    double more = evaluation.memory.total() - winner.memory.total();
    if (more > 0)
      return formatBytes(more) + " more memory";
  }
  double slower = evaluation.stepSeconds - winner.stepSeconds;
  constexpr double kEqual = 1e-3; // Smaller differences are rounding.
  if (slower < -kEqual * winner.stepSeconds)
    return formatSeconds(-slower) + " faster, but not what --strategy allows";
  if (slower <= 0)
    return "equal; the first of several equal strategies is chosen";
  double compute = evaluation.computeSeconds - winner.computeSeconds;
  double exposed = evaluation.exposedCommunicationSeconds -
                   winner.exposedCommunicationSeconds;
  std::string text = formatSeconds(slower) + " slower";
  if (exposed > compute && exposed > 0)
    return text + ": " + formatSeconds(exposed) + " more communication";
  if (compute > 0)
    return text + ": " + formatSeconds(compute) + " more compute";
  return text;
}

/// A baseline that fits is only compared if there is a winner.
static std::string whyNotBaseline(const SearchProblem &problem,
                                  const SearchResult &result,
                                  const Candidate &candidate) {
  bool isEstimate = candidate.method == "formula";
  bool isWinner = result.hasWinner() && !isEstimate &&
                  candidate.strategy == result.candidates[0].strategy;
  if (isWinner)
    return "";
  if (candidate.fits && isEstimate)
    return "estimate by formula";
  if (candidate.fits && !result.hasWinner())
    return "";
  return whyNotChosen(problem, result, candidate);
}

void explainCandidates(const SearchProblem &problem, SearchResult &result) {
  std::vector<Candidate> &candidates = result.candidates;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (i > 0 || !candidates[i].fits)
      candidates[i].why = whyNotChosen(problem, result, candidates[i]);
  for (Baseline &baseline : result.baselines)
    baseline.candidate.why =
        whyNotBaseline(problem, result, baseline.candidate);
}

/// Returns the fastest plan that beats the winner but does not fit, or null.
static const Candidate *fasterButTooLarge(const SearchResult &result) {
  const Candidate *fastest = &result.candidates.front();
  auto consider = [&](const Candidate &candidate) {
    if (kindOf(candidate) == CandidateKind::TooLarge &&
        candidate.method != "formula" &&
        candidate.evaluation.stepSeconds < fastest->evaluation.stepSeconds)
      fastest = &candidate;
  };
  for (const Candidate &candidate : result.candidates)
    consider(candidate);
  for (const Baseline &baseline : result.baselines)
    consider(baseline.candidate);
  return fastest == &result.candidates.front() ? nullptr : fastest;
}

static std::string slowestPart(const SearchProblem &problem,
                               const Evaluation &winner) {
  const Cluster &cluster = problem.cluster;
  double bubble = winner.bubbleFraction * winner.stepSeconds;
  double exposed = winner.exposedCommunicationSeconds;
  if (bubble > winner.computeSeconds && bubble > exposed)
    return "pipeline bubble";
  if (exposed <= std::max(winner.computeSeconds, winner.stepSeconds / 2)) {
    const Device &device = cluster.slowestDevice(problem.totals.computeType);
    DType type = computeType(device, problem.totals.computeType);
    double ideal = winner.flops / double(problem.options.space.ranks) /
                   std::max(device.peak(type), 1.0);
    return ideal < 0.02 * winner.computeSeconds ? "launch overhead" : "compute";
  }
  size_t slowest = 0;
  double most = -1;
  for (size_t i = 0; i < winner.bytesPerLevel.size(); ++i) {
    double seconds = winner.bytesPerLevel[i] / cluster.levels[i].bytesPerSecond;
    if (seconds > most) {
      most = seconds;
      slowest = i;
    }
  }
  if (winner.transferSeconds > most)
    return winner.diskBytes > 0 ? "transfers to disk"
                                : "transfers to host memory";
  return "communication over " + cluster.levels[slowest].name;
}

void findBindingConstraint(const SearchProblem &problem, SearchResult &result) {
  result.bindingConstraint = "memory";
  if (!result.hasWinner())
    return;
  if (const Candidate *larger = fasterButTooLarge(result))
    result.bindingDetail =
        "a plan of " + formatSeconds(larger->evaluation.stepSeconds) +
        " a step needs " + formatBytes(larger->evaluation.memory.total());
  else
    result.bindingConstraint =
        slowestPart(problem, result.candidates.front().evaluation);
}

} // namespace dpc::cost
