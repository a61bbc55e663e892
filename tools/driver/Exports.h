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

/// Writes the files into DIR/exports. Adds remarks about settings that they
/// lack, and about the expected time and memory under the targets' software.
mlir::LogicalResult writeExports(Session &session, const Searched &searched,
                                 const PlannedExports &planned,
                                 const std::filesystem::path &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPORTS_H
