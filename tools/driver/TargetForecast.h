//===- TargetForecast.h - The plan under other software ---------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_TARGETFORECAST_H
#define DPC_TOOLS_DRIVER_TARGETFORECAST_H

#include "cost-model/search/Search.h"

#include <optional>
#include <string>

namespace dpc {

/// The time and memory of a plan that a target of --emit runs.
struct TargetForecast {
  std::string target, software; ///< "megatron", "megatron-core-2024"
  double stepSeconds = 0;
  double memoryBytes = 0, limitBytes = 0; ///< Of the fullest device.

  bool fits() const { return memoryBytes <= limitBytes; }
};

/// `cluster` with the profile `software`. Nullopt if the cluster has this
/// profile already, if the profile does not exist, or if its kernels do not
/// support the devices or `precision`.
std::optional<cost::Cluster> clusterRunBy(const cost::Cluster &cluster,
                                          const std::string &software,
                                          const std::string &precision);

/// The forecast of the only strategy in `found`, if it can run.
std::optional<TargetForecast> forecastOf(const std::string &target,
                                         const std::string &software,
                                         const cost::SearchResult &found);

/// A sentence that compares the forecast with dpc-run's prediction `here`.
std::string forecastText(const TargetForecast &forecast,
                         const cost::Evaluation &here);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_TARGETFORECAST_H
