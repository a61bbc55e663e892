//===- Intervals.cpp - Intervals of plans in a report ---------------------===//
#include "cost-model/report/Intervals.h"

#include "cost-model/report/Report.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dpc::cost {

using nlohmann::ordered_json;

PlanInterval Intervals::of(const Cluster &cluster, const SearchResult &result,
                           const Candidate &candidate) const {
  Situation at = situationOf(cluster, result.totals, candidate.strategy);
  const Evaluation &evaluation = candidate.evaluation;
  PlanInterval interval;
  ErrorInterval factors = time.intervalAt(at);
  interval.lowSeconds = factors.low * evaluation.stepSeconds;
  interval.highSeconds = factors.high * evaluation.stepSeconds;
  if (!cluster.software.keepsMemory || !memory.isKnown())
    return interval;
  factors = memory.intervalAt(at);
  double limitBytes = usableBytesOf(result, candidate);
  double bytes = evaluation.memory.total();
  double low = factors.low * bytes, high = factors.high * bytes;
  interval.memory = {.lowBytes = low,
                     .highBytes = high,
                     .verdict = high <= limitBytes ? MemoryVerdict::Fits
                                : low > limitBytes ? MemoryVerdict::DoesNotFit
                                                   : MemoryVerdict::AtRisk};
  return interval;
}

double Intervals::chanceOfWinner(const Cluster &cluster,
                                 const SearchResult &result) const {
  std::vector<double> seconds;
  for (const Candidate &candidate : result.candidates)
    if (candidate.fits && candidate.skipped.empty())
      seconds.push_back(candidate.evaluation.stepSeconds);
  return chanceOfFirst(
      seconds, timeOf(cluster, result.totals, result.candidates[0].strategy)
                   .withinSource);
}

size_t mostRobust(const Intervals &intervals, const Cluster &cluster,
                  const SearchResult &result) {
  size_t best = 0;
  std::pair<bool, double> least; // whether it may not fit, and the seconds
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    const Candidate &candidate = result.candidates[i];
    if (!candidate.fits || !candidate.skipped.empty())
      continue;
    PlanInterval interval = intervals.of(cluster, result, candidate);
    bool mayNotFit =
        interval.memory && interval.memory->verdict != MemoryVerdict::Fits;
    std::pair value(mayNotFit, interval.highSeconds);
    if (i == 0 || value < least) {
      least = value;
      best = i;
    }
  }
  return best;
}

std::string intervalText(const Intervals &intervals, const Cluster &cluster,
                         const SearchResult &result) {
  const Candidate &winner = result.candidates.front();
  PlanInterval interval = intervals.of(cluster, result, winner);
  std::string text = "90 % interval: " + formatSeconds(interval.lowSeconds) +
                     " to " + formatSeconds(interval.highSeconds) + " a step";
  if (interval.memory)
    text += ", " + formatBytes(interval.memory->lowBytes) + " to " +
            formatBytes(interval.memory->highBytes) + " (" +
            std::string(stringify(interval.memory->verdict)) + ")";
  long chance = std::lround(100 * intervals.chanceOfWinner(cluster, result));
  return text + "; the fastest plan in this report with a probability of " +
         std::to_string(chance) + " %";
}

ordered_json intervalToJson(const PlanInterval &interval) {
  ordered_json json = {
      {"share", kIntervalShare},
      {"step_seconds", {interval.lowSeconds, interval.highSeconds}}};
  if (interval.memory) {
    json["memory_bytes"] = {std::llround(interval.memory->lowBytes),
                            std::llround(interval.memory->highBytes)};
    json["memory_verdict"] = std::string(stringify(interval.memory->verdict));
  }
  return json;
}

} // namespace dpc::cost
