//===- Exports.h - Files for other programs ---------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_EXPORTS_H
#define DPC_TOOLS_DRIVER_EXPORTS_H

#include "codegen/export/Targets.h"
#include "tools/driver/Compile.h"

namespace dpc {

/// Whether --emit names a file for another program.
bool exportsAny(const CompileOptions &options);

/// The targets of --emit that can express the winner.
struct PlannedExports {
  exports::Job job;
  std::vector<const exports::Target *> targets;
};

/// Checks the winner against the rules of each target of --emit, and refuses
/// the targets that cannot express it. Nullopt if nothing is left to write.
std::optional<PlannedExports> planExports(Session &session,
                                          const Searched &searched);

/// Writes the files into DIR/exports. Adds remarks about settings that the
/// files cannot express, and about the expected time and memory under the
/// targets' software.
mlir::LogicalResult writeExports(Session &session, const Searched &searched,
                                 const PlannedExports &planned,
                                 const std::filesystem::path &dir);

/// The expected time and memory of a plan when a target of --emit runs it.
struct TargetForecast {
  std::string target, software; ///< "megatron", "megatron-core-2024"
  double stepSeconds = 0;
  double memoryBytes = 0, limitBytes = 0; ///< Of the fullest device.

  bool fits() const { return memoryBytes <= limitBytes; }
};

/// Returns `cluster` with the profile `software`, or nullopt if the cluster has
/// this profile already, if the profile does not exist, or if its kernels do
/// not support the devices or `precision`.
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

/// Writes `files` into DIR/exports, with an index that lists them and the
/// forecasts. Returns "" or a one-line error.
std::string
writeExportedFiles(const std::vector<exports::ExportedFile> &files,
                   const std::string &strategy,
                   const std::filesystem::path &dir,
                   const std::vector<TargetForecast> &forecasts = {});

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPORTS_H
