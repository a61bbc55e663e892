//===- PlanCommand.h - the command that made a plan -------------*- C++ -*-===//
//
// plan/command.json: {"version": 1, "model": FILE, "cluster": "local:N" or
// FILE, "words": ["--train=adamw", ...]}. dpc-run --elastic passes these words
// to dpc-opt to plan the same step for another number of devices. The words
// describe what a step computes. They do not mention parallelization or output
// files. File names are absolute.
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

/// Whether dpc-opt's option `name`, for example "lr", describes what a step
/// computes.
bool isStepOption(std::string_view name);

/// Writes DIR/command.json (DIR must exist).
Status writePlanCommand(const PlanCommand &command, const std::string &dir);

/// Reads DIR/command.json, which may be untrusted. Refuses options for which
/// isStepOption() is false.
Expected<PlanCommand> readPlanCommand(const std::string &dir);

/// The arguments with which dpc-opt plans the step for `devices` devices of the
/// cluster.
std::vector<std::string> wordsFor(const PlanCommand &command, int64_t devices);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANCOMMAND_H
