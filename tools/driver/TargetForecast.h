//===- TargetForecast.h - How other programs run the plan -------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_TARGETFORECAST_H
#define DPC_TOOLS_DRIVER_TARGETFORECAST_H

#include "cost-model/search/Search.h"

#include <optional>
#include <string>

namespace dpc {

/// What a plan takes where a target of --emit runs it instead of dpc-run.
struct TargetForecast {
  std::string target, software; ///< "megatron", "megatron-core-2024"
  double stepSeconds = 0;
  double memoryBytes = 0, limitBytes = 0; ///< Of the fullest device.

  bool fits() const { return memoryBytes <= limitBytes; }
};

/// `cluster` run by `software`; nothing where it is that already, where the
/// profile's kernels are not for its devices and `precision`, or where there is
/// no such profile.
std::optional<cost::Cluster> clusterRunBy(const cost::Cluster &cluster,
                                          const std::string &software,
                                          const std::string &precision);

/// Of the one strategy that was searched for.
std::optional<TargetForecast> forecastOf(const std::string &target,
                                         const std::string &software,
                                         const cost::SearchResult &found);

/// One sentence, beside what `here` says of the plan.
std::string forecastText(const TargetForecast &forecast,
                         const cost::Evaluation &here);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_TARGETFORECAST_H
