//===- ShrunkVerify.h - Verification of large models -----------*- C++ -*-===//
#pragma once

#include "cost-model/report/Report.h"
#include "cost-model/strategy/StrategyShrink.h"
#include "passes/shrink/Shrink.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Verify.h"

namespace dpc {

/// A small program with the structure of the model, and a strategy for few
/// ranks.
struct ShrunkProgram {
  mlir::OwningOpRef<mlir::ModuleOp> program; ///< without shardings
  /// The program with the original sizes and the spec of the original
  /// strategy, for which layouts are chosen.
  mlir::OwningOpRef<mlir::ModuleOp> wide;
  LoweringSpec wideSpec;
  cost::ShrunkStrategy choice;
  ShrinkSummary summary;
  bool inFp32 = false; ///< fp32 replaces the compute type of the model
};

/// Shrinks a copy of `fused`, a module with the @forward of dpc-fuse, for
/// `strategy`, and builds the training step. It computes in fp32, whose small
/// rounding errors hide the fewest mistakes. Fails with one diagnostic.
mlir::FailureOr<ShrunkProgram> shrinkForStrategy(mlir::ModuleOp fused,
                                                 const CompileOptions &options,
                                                 const cost::Strategy &strategy,
                                                 int64_t globalBatch);

/// Compiles the shrunk program for its ranks and for one device, in temporary
/// folders inside `dir`, and compares them. Uses the layouts of the large
/// model; if the two programs do not match, sets `keepsLayouts` to false and
/// uses layouts chosen for the small model. `observer` receives the program of
/// the ranks, which tests change.
Verdict verifyShrunk(const ShrunkProgram &shrunk, const PlanSettings &settings,
                     const cost::Cluster &cluster,
                     const std::filesystem::path &dir, bool &keepsLayouts,
                     PhaseObserver observer = nullptr);

/// Shrinks and verifies without reporting diagnostics (`linkSpeed`: see
/// cost::Decisions). Returns what was verified, or why verification is not
/// possible. Sets `mismatch` to one line if the ranks compute a different
/// result.
cost::Verification
verifyInShrunkForm(mlir::ModuleOp fused, const PlanSettings &settings,
                   const cost::Cluster &cluster, const cost::Strategy &strategy,
                   double linkSpeed, int64_t globalBatch,
                   const std::filesystem::path &dir, std::string &mismatch);

void setVerdict(cost::Verification &verification, const Verdict &verdict);

} // namespace dpc
