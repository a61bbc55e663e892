//===- TargetForecast.cpp - The plan under other software -----------------===//
#include "tools/driver/TargetForecast.h"

#include "cost-model/report/Report.h"

#include <algorithm>

namespace dpc {

std::optional<cost::Cluster> clusterRunBy(const cost::Cluster &cluster,
                                          const std::string &software,
                                          const std::string &precision) {
  if (software.empty() || cluster.software.name == software ||
      precision == "fp32")
    return std::nullopt;
  auto profile = cost::loadSoftware(software);
  bool hasKernels = std::ranges::all_of(cluster.groups, [](const auto &group) {
    return group.device.hasFusedAttention();
  });
  if (!profile || !hasKernels)
    return std::nullopt;
  cost::Cluster theirs = cluster;
  theirs.setSoftware(*profile);
  return theirs;
}

std::optional<TargetForecast> forecastOf(const std::string &target,
                                         const std::string &software,
                                         const cost::SearchResult &found) {
  if (found.candidates.empty() ||
      !found.candidates.front().evaluation.rejected.empty())
    return std::nullopt;
  const cost::Evaluation &plan = found.candidates.front().evaluation;
  return TargetForecast{.target = target,
                        .software = software,
                        .stepSeconds = plan.stepSeconds,
                        .memoryBytes = plan.memory.total(),
                        .limitBytes = plan.memoryLimitBytes > 0
                                          ? plan.memoryLimitBytes
                                          : found.memoryLimitBytes};
}

std::string forecastText(const TargetForecast &forecast,
                         const cost::Evaluation &here) {
  using cost::formatBytes;
  using cost::formatSeconds;
  std::string text = "--emit=" + forecast.target + ": with " +
                     forecast.software + " the plan is expected to take " +
                     formatSeconds(forecast.stepSeconds) + " a step and " +
                     formatBytes(forecast.memoryBytes) + " of " +
                     formatBytes(forecast.limitBytes) + "; with dpc-run, " +
                     formatSeconds(here.stepSeconds) + " and " +
                     formatBytes(here.memory.total());
  if (!forecast.fits())
    text += "; it does not fit there: \"software\": \"" + forecast.software +
            "\" in the cluster.json searches for a plan that does";
  return text;
}

} // namespace dpc
