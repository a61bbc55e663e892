//===- PlanTarget.h - The software for which a plan is made -----*- C++ -*-===//
//
// --for=TARGET plans for other software than dpc-run. A target provides
//   * the software profile: Machine::cluster has it, so that all times and all
//     memory are those of the target;
//   * the rules: Prepared::accepts limits the search to what it can express;
//   * the exporter, which writes the plan as a configuration.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Targets.h"
#include "cost-model/machine/Cluster.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

/// A condition on strategies. Several threads call it at once.
using Accepts = std::function<bool(const cost::Strategy &)>;

/// Returns the target of --for, or null for dpc's own runtime.
const exports::Target *targetOf(const CompileOptions &options);

/// Returns why the profile `software` has no constants for these devices or for
/// `precision`, or "".
std::string whyNoProfile(const cost::Cluster &cluster,
                         const std::string &software,
                         const std::string &precision);

/// Gives the cluster the profile of --for. Returns "" or a one-line error.
std::string useTarget(const CompileOptions &options, cost::Cluster &cluster,
                      std::vector<std::string> &remarks);

/// Returns the strategies that `target` can express for `job`.
Accepts acceptedBy(const exports::Target &target, const exports::Job &job);

/// Returns why `target` can express no strategy for `job`, or "".
std::string whyNeverExpressible(const exports::Target &target,
                                const exports::Job &job);

/// Returns the first line of the report: "times and memory are those of ...".
std::string softwareLine(const CompileOptions &options,
                         const cost::Cluster &cluster);

} // namespace dpc
