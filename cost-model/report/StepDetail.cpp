//===- StepDetail.cpp - The simulated step in report.json -----------------===//
#include "cost-model/report/StepDetail.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace dpc::cost {

using nlohmann::ordered_json;

/// The report opens quickly within these limits.
static constexpr size_t kMostEntries = 16000, kMostIntervals = 8000,
                        kMostMoments = 500;

/// Returns the unit of the report's times, in seconds: a power of ten in which
/// the `seconds` of the step have at most nine digits.
static double tickOf(double seconds) {
  double tick = 1e-9;
  while (seconds / tick >= 1e9)
    tick *= 10;
  return tick;
}

static std::vector<BusyInterval> joined(const std::vector<BusyInterval> &all,
                                        double gap) {
  std::vector<BusyInterval> result;
  for (const BusyInterval &next : all) {
    if (next.end <= next.begin)
      continue;
    bool isMore = !result.empty() && result.back().label == next.label &&
                  next.begin - result.back().end <= gap;
    if (isMore)
      result.back().end = std::max(result.back().end, next.end);
    else
      result.push_back(next);
  }
  return result;
}

static size_t countIntervals(const StepDetail &detail, double gap) {
  size_t count = 0;
  for (const DetailStage &stage : detail.stages)
    for (const DetailPhase &phase : stage.phases)
      for (const auto *queue :
           {&phase.compute, &phase.communication, &phase.copy})
        count += joined(*queue, gap * phase.seconds).size();
  return count;
}

/// The report joins intervals with gaps up to this share of the phase's time.
static double gapOf(const StepDetail &detail) {
  double gap = 1e-6;
  while (gap < 1 && countIntervals(detail, gap) > kMostIntervals)
    gap *= 2;
  return gap;
}

/// Returns all stages, or evenly spaced stages if there are too many entries.
static std::set<size_t> stagesToShow(const StepDetail &detail) {
  size_t entries = 0, count = detail.stages.size();
  for (const DetailStage &stage : detail.stages)
    entries += stage.entries.size();
  size_t shown = count;
  if (entries > kMostEntries)
    shown = std::max<size_t>(2, count * kMostEntries / entries);
  std::set<size_t> stages;
  for (size_t i = 0; i < std::min(shown, count); ++i)
    stages.insert(shown > 1 ? i * (count - 1) / (shown - 1) : 0);
  return stages;
}

static ordered_json intervalsToJson(const std::vector<BusyInterval> &intervals,
                                    double gap, double tick) {
  ordered_json json = ordered_json::array();
  for (const BusyInterval &interval : joined(intervals, gap)) {
    json.push_back({std::llround(interval.begin / tick),
                    std::llround(interval.end / tick)});
    if (interval.label >= 0)
      json.back().push_back(interval.label);
  }
  return json;
}

static ordered_json stageToJson(const DetailStage &stage, size_t number,
                                double gap, double tick) {
  ordered_json phases = ordered_json::array();
  for (const DetailPhase &phase : stage.phases) {
    double least = gap * phase.seconds;
    phases.push_back(
        {{"name", phase.name},
         {"ticks", std::llround(phase.seconds / tick)},
         {"compute", intervalsToJson(phase.compute, least, tick)},
         {"communication", intervalsToJson(phase.communication, least, tick)}});
    if (phase.waitEnd > phase.waitBegin)
      phases.back()["wait"] = {std::llround(phase.waitBegin / tick),
                               std::llround(phase.waitEnd / tick)};
    if (!phase.copy.empty())
      phases.back()["copy"] = intervalsToJson(phase.copy, least, tick);
  }
  ordered_json entries = ordered_json::array();
  for (const DetailEntry &entry : stage.entries)
    entries.push_back(
        {entry.phase, entry.microBatch, std::llround(entry.begin / tick)});
  return {{"stage", number}, {"phases", phases}, {"entries", entries}};
}

static ordered_json timelineToJson(const StepDetail &detail) {
  double tick = tickOf(detail.stepSeconds), gap = gapOf(detail);
  ordered_json stages = ordered_json::array();
  for (size_t i : stagesToShow(detail))
    stages.push_back(stageToJson(detail.stages[i], i, gap, tick));
  return {{"tick_seconds", tick},
          {"step_ticks", std::llround(detail.stepSeconds / tick)},
          {"host_ticks", std::llround(detail.hostSeconds / tick)},
          {"stage_count", detail.stages.size()},
          {"labels", detail.labels},
          {"stages", stages}};
}

static ordered_json trafficToJson(const StepDetail &detail,
                                  const Cluster &cluster) {
  ordered_json json = ordered_json::array();
  for (const DetailTraffic &traffic : detail.traffic) {
    ordered_json levels = ordered_json::object();
    for (size_t i = 0; i < traffic.bytesPerLevel.size(); ++i)
      levels[cluster.levels[i].name] = std::llround(traffic.bytesPerLevel[i]);
    json.push_back({{"stage", traffic.stage},
                    {"what", detail.labels[traffic.label]},
                    {"times", std::llround(traffic.times)},
                    {"seconds", traffic.seconds},
                    {"bytes_per_level", levels}});
  }
  return json;
}

/// Returns the moment with the most memory in each of kMostMoments equal spans,
/// at most one moment per tick.
static std::vector<MemoryMoment>
fullestMoments(const std::vector<MemoryMoment> &all, double tick) {
  auto isLess = [](const MemoryMoment &a, const MemoryMoment &b) {
    return a.bytes.total() < b.bytes.total();
  };
  std::vector<MemoryMoment> result;
  size_t count = std::min(all.size(), kMostMoments);
  for (size_t i = 0; i < count; ++i) {
    auto begin = all.begin() + i * all.size() / count;
    auto end = all.begin() + (i + 1) * all.size() / count;
    MemoryMoment next = *std::max_element(begin, end, isLess);
    bool isAgain = !result.empty() && std::llround(result.back().at / tick) ==
                                          std::llround(next.at / tick);
    if (!isAgain)
      result.push_back(next);
    else if (isLess(result.back(), next))
      result.back() = next;
  }
  return result;
}

static ordered_json memoryToJson(const StepDetail &detail) {
  double tick = tickOf(detail.stepSeconds);
  ordered_json at = ordered_json::array();
  std::array<ordered_json, numMemoryCategories> bytes;
  for (const MemoryMoment &moment : fullestMoments(detail.memory, tick)) {
    at.push_back(std::llround(moment.at / tick));
    for (int i = 0; i < numMemoryCategories; ++i)
      bytes[i].push_back(std::llround(moment.bytes.bytes[i]));
  }
  ordered_json categories = ordered_json::object();
  for (int i = 0; i < numMemoryCategories; ++i)
    categories[std::string(
        stringifyMemoryCategory(static_cast<MemoryCategory>(i)))] = bytes[i];
  ordered_json phases = ordered_json::array();
  double begin = 0;
  for (const DetailPhase &phase : detail.stages[detail.fullestStage].phases) {
    phases.push_back(
        {{"name", phase.name}, {"at", std::llround(begin / tick)}});
    begin += phase.seconds;
  }
  return {{"stage", detail.fullestStage},
          {"phases", phases},
          {"end", std::llround(begin / tick)},
          {"at", at},
          {"bytes", categories}};
}

static ordered_json operatorsToJson(const StepDetail &detail) {
  ordered_json json = ordered_json::array();
  for (const OperatorSharding &op : detail.operators)
    json.push_back({{"name", op.name},
                    {"count", op.count},
                    {"op", op.op},
                    {"kind", op.kind},
                    {"shape", op.shape},
                    {"stored", op.stored},
                    {"used", op.used},
                    {"result", op.result}});
  return json;
}

ordered_json detailToJson(const StepDetail &detail, const Cluster &cluster) {
  return {{"timeline", timelineToJson(detail)},
          {"traffic", trafficToJson(detail, cluster)},
          {"memory", memoryToJson(detail)},
          {"operators", operatorsToJson(detail)}};
}

} // namespace dpc::cost
