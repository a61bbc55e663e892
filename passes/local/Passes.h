//===- Passes.h - Passes of the local altitude ------------------*- C++ -*-===//
//
// From a sharded function to the program of one rank. See README.md for the
// order in which the passes run.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_PASSES_H
#define DPC_PASSES_LOCAL_PASSES_H

#include "ir/Dialect.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

#define GEN_PASS_DECL
#include "passes/local/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/local/Passes.h.inc"

/// Registers every pass of this folder for command lines.
inline void registerLocalPasses() { registerDpcLocalPasses(); }

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PASSES_H
