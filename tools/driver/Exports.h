//===- Exports.h - The plan for other programs ------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_EXPORTS_H
#define DPC_TOOLS_DRIVER_EXPORTS_H

#include "codegen/export/Targets.h"
#include "tools/driver/Compile.h"

namespace dpc {

/// Whether --emit names a file for another program.
bool exportsAny(const CompileOptions &options);

/// What --emit names for other programs, as far as these can express it.
struct PlannedExports {
  exports::Job job;
  std::vector<const exports::Target *> targets;
};

/// Checks the winner against the rules of each target that --emit names, and
/// refuses the session those that cannot express it. Nullopt where nothing is
/// left to write.
std::optional<PlannedExports> planExports(Session &session,
                                          const Searched &searched);

/// Writes them into DIR/exports. Adds remarks on what they cannot say, and on
/// what the plan takes where a target runs it.
mlir::LogicalResult writeExports(Session &session, const Searched &searched,
                                 const PlannedExports &planned,
                                 const std::filesystem::path &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPORTS_H
