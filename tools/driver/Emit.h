//===- Emit.h - Files beside the plan ----------------------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_EMIT_H
#define DPC_TOOLS_DRIVER_EMIT_H

#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>

namespace dpc {

/// What --emit names that is made of the program after `phase`, written into
/// `dir`: program.mlir of "local", annotated.onnx of "sharded". Returns "", or
/// one line on what could not be written; what the user should know goes to
/// `remarks`.
std::string emitPhase(const CompileOptions &options, llvm::StringRef phase,
                      mlir::ModuleOp module, const std::filesystem::path &dir,
                      const std::string &strategy,
                      std::vector<std::string> &remarks);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EMIT_H
