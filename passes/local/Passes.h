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

/// On the function (a string: what to recompute, see dpc-recompute) and on the
/// ops that were cloned for it (unit).
inline constexpr llvm::StringLiteral kRecomputeAttr = "dpc.recompute";
/// On a product or collective of forward (unit), in programs for estimates: it
/// runs a second time in backward, although nothing reads what it makes then.
inline constexpr llvm::StringLiteral kAgainAttr = "dpc.again";

/// Registers every pass of this folder for command lines.
inline void registerLocalPasses() { registerDpcLocalPasses(); }

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PASSES_H
