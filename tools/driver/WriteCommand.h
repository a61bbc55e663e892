//===- WriteCommand.h - plan/command.json -----------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_WRITECOMMAND_H
#define DPC_TOOLS_DRIVER_WRITECOMMAND_H

#include "runtime/base/Status.h"
#include "tools/driver/CompileOptions.h"

namespace CLI {
class App;
}

namespace dpc {

/// Of a command line that was parsed the words that say what a step computes
/// (runtime/plan/PlanCommand.h), files from the root on.
std::vector<std::string> stepWords(const CLI::App &app);

/// Writes command.json beside the plan in `dir`.
Status writeCommand(const CompileOptions &options, const std::string &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_WRITECOMMAND_H
