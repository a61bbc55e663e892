//===- Passes.h - Passes of the local altitude ------------------*- C++ -*-===//
//
// The passes from a sharded function to the program of one rank. README.md
// gives their order.
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

/// Registers the passes of this folder.
inline void registerLocalPasses() { registerDpcLocalPasses(); }

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PASSES_H
