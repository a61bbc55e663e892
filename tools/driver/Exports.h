//===- Exports.h - Files for other programs ---------------------*- C++ -*-===//
#pragma once

#include "codegen/export/Targets.h"
#include "tools/driver/Compile.h"

namespace dpc {

/// Returns whether --emit names a target (a program other than dpc-run).
bool exportsAny(const CompileOptions &options);

/// Returns whether the output has a report: every plan and every export has.
bool writesReport(const CompileOptions &options);

/// The plan that one target gets.
struct PlannedExport {
  const exports::Target *target;
  exports::Job job;
  cost::Evaluation evaluation; ///< as the search priced it
};

/// Chooses what each target of --emit gets: the winner, or, if the target
/// cannot express it, the nearest legal plan, with one remark. Refuses targets
/// that cannot express a strategy that the user fixed.
std::vector<PlannedExport> planExports(Session &session,
                                       const Searched &searched);

/// Writes the files into DIR/exports. Adds remarks about settings that the
/// files cannot express, and about the time and memory that each target is
/// expected to need.
mlir::LogicalResult writeExports(Session &session, const Searched &searched,
                                 const std::vector<PlannedExport> &planned,
                                 const std::filesystem::path &dir);

/// If "software" in the cluster.json is that of a target that cannot express
/// the winner, adds a remark that --for respects its rules.
void remarkOnSoftware(Session &session, const Searched &searched);

/// The expected time and memory of a plan when a target of --emit runs it.
struct TargetForecast {
  std::string target, software; ///< "megatron", "megatron-core-2024"
  double stepSeconds = 0;
  double memoryBytes = 0, limitBytes = 0; ///< of the fullest device

  bool fits() const { return memoryBytes <= limitBytes; }
};

/// Returns `cluster` with the profile `software`. Returns nullopt if the
/// cluster already has this profile, if the profile does not exist, or if it
/// has no constants for the devices or `precision`.
std::optional<cost::Cluster> clusterRunBy(const cost::Cluster &cluster,
                                          const std::string &software,
                                          const std::string &precision);

/// Returns the forecast for the only strategy in `found`, if it can run.
std::optional<TargetForecast> forecastOf(const std::string &target,
                                         const std::string &software,
                                         const cost::SearchResult &found);

/// Compares the forecast with dpc-run's prediction `here`, in one sentence.
std::string forecastText(const TargetForecast &forecast,
                         const cost::Evaluation &here);

/// Writes `files` into DIR/exports, with an index that lists them, the
/// strategies by target and the forecasts. Returns "" or a one-line error.
std::string
writeExportedFiles(const std::vector<exports::ExportedFile> &files,
                   const std::string &strategy,
                   const std::filesystem::path &dir,
                   const std::vector<TargetForecast> &forecasts = {},
                   const std::map<std::string, std::string> &strategies = {});

} // namespace dpc
