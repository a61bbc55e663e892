//===- SearchExplain.cpp - Why candidates lose ----------------------------===//

#include "cost-model/machine/ComputeCost.h"
#include "cost-model/report/Report.h"
#include "cost-model/search/StrategySearch.h"

#include <algorithm>

namespace dpc::cost {

std::string StrategySearch::overMemory(double bytes, double limit) const {
  return "memory " + formatBytes(bytes) + " > " + formatBytes(limit);
}

/// Why an entry need not be evaluated; empty when it must be.
/// (P1) and (P2) of Search.h.
bool StrategySearch::isPruned(const Pending &entry, double worst) const {
  return entry.bounds.memoryBytes > result.memoryLimitBytes ||
         value(entry.bounds.stepSeconds, entry.bounds.memoryBytes) > worst;
}

std::string StrategySearch::whyPruned(const Pending &entry, double worst,
                                      bool isFirst) const {
  bool isTooLarge = entry.bounds.memoryBytes > result.memoryLimitBytes;
  // When nothing fits, the nearest miss is still worth an exact number; a
  // strategy that the user fixed is evaluated as it is.
  if (isTooLarge)
    return isFirst ? ""
                   : "at least " + overMemory(entry.bounds.memoryBytes,
                                              result.memoryLimitBytes);
  if (!isPruned(entry, worst))
    return "";
  double bound = value(entry.bounds.stepSeconds, entry.bounds.memoryBytes);
  return "at least " +
         (options.objective == Objective::Memory ? formatBytes(bound)
                                                 : formatSeconds(bound)) +
         ", past the kept ones";
}

std::string StrategySearch::explain(const Candidate &candidate) const {
  const Evaluation &evaluation = candidate.evaluation;
  if (!candidate.skipped.empty())
    return candidate.skipped;
  if (!evaluation.rejected.empty())
    return evaluation.rejected;
  if (!candidate.fits && cluster.host.holdsDevices && evaluation.hostBytes > 0)
    return overMemory(evaluation.memory.total() + evaluation.hostBytes,
                      limitOf(evaluation)) +
           ", offloaded " + formatBytes(evaluation.hostBytes) + " among it";
  if (!candidate.fits && evaluation.memory.total() <= limitOf(evaluation))
    return "offloaded " + formatBytes(evaluation.hostBytes) + " a rank, " +
           std::to_string(cluster.devicesPerNode()) + " ranks a node > " +
           formatBytes(cluster.host.memoryBytes) + " of host memory";
  if (!candidate.fits)
    return overMemory(evaluation.memory.total(), limitOf(evaluation));
  const Evaluation &winner = result.candidates.front().evaluation;
  if (options.objective == Objective::Memory) {
    double more = evaluation.memory.total() - winner.memory.total();
    if (more > 0)
      return formatBytes(more) + " more memory";
  }
  double slower = evaluation.stepSeconds - winner.stepSeconds;
  constexpr double kEqual = 1e-3; // Of a step: less is rounding.
  if (slower < -kEqual * winner.stepSeconds)
    return formatSeconds(-slower) + " faster, but not what --strategy allows";
  if (slower <= 0)
    return "equal; the first of equals is taken";
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

void StrategySearch::explainAll() {
  size_t top = static_cast<size_t>(std::max<int64_t>(options.top, 1));
  if (result.candidates.size() > top)
    result.candidates.resize(top);
  for (size_t i = 0; i < result.candidates.size(); ++i)
    if (i > 0 || !result.candidates[i].fits)
      result.candidates[i].why = explain(result.candidates[i]);
  for (Baseline &baseline : result.baselines)
    explainBaseline(baseline.candidate);
}

void StrategySearch::explainBaseline(Candidate &candidate) const {
  bool isWinner = result.hasWinner() && candidate.method != "formula" &&
                  candidate.strategy == result.candidates[0].strategy;
  candidate.why.clear();
  if (isWinner)
    return;
  if (candidate.fits && candidate.method == "formula")
    candidate.why = "estimate by formula";
  else if (!candidate.fits || result.hasWinner())
    candidate.why = explain(candidate);
}

/// The fastest candidate that is faster than the winner and does not fit.
const Candidate *StrategySearch::fasterButTooLarge() const {
  const Candidate *fastest = &result.candidates.front();
  auto look = [&](const Candidate &candidate) {
    if (kindOf(candidate) == 1 && candidate.method != "formula" &&
        candidate.evaluation.stepSeconds < fastest->evaluation.stepSeconds)
      fastest = &candidate;
  };
  for (const Candidate &candidate : result.candidates)
    look(candidate);
  for (const Baseline &baseline : result.baselines)
    look(baseline.candidate);
  return fastest == &result.candidates.front() ? nullptr : fastest;
}

void StrategySearch::findBinding() {
  const Candidate *larger = result.hasWinner() ? fasterButTooLarge() : nullptr;
  if (larger)
    result.bindingDetail =
        "a plan of " + formatSeconds(larger->evaluation.stepSeconds) +
        " a step needs " + formatBytes(larger->evaluation.memory.total());
  result.bindingConstraint =
      larger || !result.hasWinner() ? "memory" : slowestPart();
}

/// What takes most of the winner's step.
std::string StrategySearch::slowestPart() const {
  const Evaluation &winner = result.candidates.front().evaluation;
  double bubble = winner.bubbleFraction * winner.stepSeconds;
  double exposed = winner.exposedCommunicationSeconds;
  if (bubble > winner.computeSeconds && bubble > exposed)
    return "pipeline bubble";
  if (exposed <= std::max(winner.computeSeconds, winner.stepSeconds / 2)) {
    const Device &device = cluster.slowestDevice(result.totals.computeType);
    DType type = computeType(device, result.totals.computeType);
    double ideal = winner.flops / double(options.space.ranks) /
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

} // namespace dpc::cost
