//===- Compiler.h - dpc-opt's pipeline ---------------------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_COMPILER_H
#define DPC_TOOLS_DRIVER_COMPILER_H

#include "tools/driver/CompileOptions.h"

#include "mlir/IR/DialectRegistry.h"

namespace dpc {

/// Dialects, passes and interface models that dpc-opt knows.
void registerEverything(mlir::DialectRegistry &registry);

/// Compiles `options.model`; returns the exit code. Errors are one line on
/// stderr.
int compileModel(const CompileOptions &options);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_COMPILER_H
