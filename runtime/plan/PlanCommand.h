//===- PlanCommand.h - what a plan was made of ------------------*- C++ -*-===//
//
// plan/command.json: {"version": 1, "model": FILE, "cluster": "local:N" or
// FILE, "words": ["--train=adamw", ...]}. Who plans the same step for other
// devices (dpc-run --elastic) gives dpc-opt these words. They say what a step
// computes, never how it is split or where anything is written; files are named
// from the root on.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_PLANCOMMAND_H
#define DPC_RUNTIME_PLAN_PLANCOMMAND_H

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace dpc::rt {

struct PlanCommand {
  std::string model, cluster;
  std::vector<std::string> words; ///< "--name=value" or "--name"
};

/// Whether option `name` ("lr") of dpc-opt is of what a step computes.
bool isStepOption(std::string_view name);

/// Writes DIR/command.json (DIR must exist).
Status writePlanCommand(const PlanCommand &command, const std::string &dir);

/// Reads DIR/command.json, which may come from anywhere: options that
/// isStepOption() does not know are refused.
Expected<PlanCommand> readPlanCommand(const std::string &dir);

/// What dpc-opt is given to plan the step for `devices` of the cluster's.
std::vector<std::string> wordsFor(const PlanCommand &command, int64_t devices);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANCOMMAND_H
