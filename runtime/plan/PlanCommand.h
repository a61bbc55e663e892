//===- PlanCommand.h - the command that made a plan -------------*- C++ -*-===//
//
// dpc-run --elastic reads command.json of a plan to plan the same step for
// another number of devices:
//
//   {"version": 1, "model": FILE, "cluster": "local:N" or FILE,
//    "words": ["--train=adamw", ...]}
//
// The words are those options of dpc-opt that describe what a step computes.
// File names are absolute.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace dpc::rt {

struct PlanCommand {
  std::string model, cluster;
  std::vector<std::string> words; ///< "--name=value" or "--name"
};

/// Returns whether this option of dpc-opt, for example "lr", describes what a
/// step computes.
bool isStepOption(std::string_view name);

/// Folder `dir` must exist.
Status writePlanCommand(const PlanCommand &command, const std::string &dir);

/// Reads command.json, which may be untrusted. Refuses options that are not
/// step options.
Expected<PlanCommand> readPlanCommand(const std::string &dir);

/// Returns dpc-opt's arguments to plan the step for `devices` devices.
std::vector<std::string> wordsFor(const PlanCommand &command, int64_t devices);

} // namespace dpc::rt
