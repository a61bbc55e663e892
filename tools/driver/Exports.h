//===- Exports.h - Files for other programs ---------------------*- C++ -*-===//
#pragma once

#include "codegen/export/Targets.h"
#include "tools/driver/Compile.h"

namespace dpc {

/// Returns whether --emit names a target (a program other than dpc-run).
bool exportsAny(const CompileOptions &options);

struct PlannedExports {
  exports::Job job;
  std::vector<const exports::Target *> targets;
};

/// Checks the winner against the rules of each target of --emit, and refuses
/// targets that cannot express it. Returns nullopt if no target is left.
std::optional<PlannedExports> planExports(Session &session,
                                          const Searched &searched);

/// Writes the files into DIR/exports. Adds remarks about settings that the
/// files cannot express, and about the time and memory that each target is
/// expected to need.
mlir::LogicalResult writeExports(Session &session, const Searched &searched,
                                 const PlannedExports &planned,
                                 const std::filesystem::path &dir);

/// The expected time and memory of a plan when a target of --emit runs it.
struct TargetForecast {
  std::string target, software; ///< "megatron", "megatron-core-2024"
  double stepSeconds = 0;
  double memoryBytes = 0, limitBytes = 0; ///< of the fullest device

  bool fits() const { return memoryBytes <= limitBytes; }
};

/// Returns `cluster` with the profile `software`. Returns nullopt if the
/// cluster already has this profile, if the profile does not exist, or if its
/// kernels do not support the devices or `precision`.
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

/// Writes `files` into DIR/exports, with an index that lists them and the
/// forecasts. Returns "" or a one-line error.
std::string
writeExportedFiles(const std::vector<exports::ExportedFile> &files,
                   const std::string &strategy,
                   const std::filesystem::path &dir,
                   const std::vector<TargetForecast> &forecasts = {});

} // namespace dpc
