//===- ShrunkVerify.h - Verification of large models -----------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_SHRUNKVERIFY_H
#define DPC_TOOLS_DRIVER_SHRUNKVERIFY_H

#include "cost-model/report/Report.h"
#include "cost-model/strategy/StrategyShrink.h"
#include "passes/shrink/Shrink.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Verify.h"

namespace dpc {

/// A small program with the structure of the model, and its strategy on few
/// ranks.
struct ShrunkProgram {
  mlir::OwningOpRef<mlir::ModuleOp> program; ///< Ready to be sharded.
  /// The same program with the original sizes, and the degrees of the original
  /// strategy. Layouts are chosen for these.
  mlir::OwningOpRef<mlir::ModuleOp> wide;
  LoweringSpec wideDegrees;
  cost::ShrunkStrategy choice;
  ShrinkSummary summary;
  bool inFp32 = false; ///< Although the model computes in a narrow type.
};

/// Shrinks a copy of `fused`, a module with the @forward of dpc-fuse, for
/// `strategy`, and makes the training step. The step computes in fp32, whose
/// rounding hides the fewest errors. Fails with one diagnostic.
mlir::FailureOr<ShrunkProgram> shrinkForStrategy(mlir::ModuleOp fused,
                                                 const CompileOptions &options,
                                                 const cost::Strategy &strategy,
                                                 int64_t globalBatch);

/// Compiles the shrunk program for its ranks and for one device, in temporary
/// folders inside `dir`, and compares them. Layouts are those chosen for the
/// large model. If the two programs do not match, `keepsLayouts` is set to
/// false and layouts are chosen for the small model. `observer` sees the
/// program of the ranks, and may change it to test verification.
Verdict verifyShrunk(const ShrunkProgram &shrunk, const PlanSettings &settings,
                     const cost::Cluster &cluster,
                     const std::filesystem::path &dir, bool &keepsLayouts,
                     PhaseObserver observer = nullptr);

/// Shrinks and verifies without reporting diagnostics (`linkSpeed`: see
/// cost::Decisions). Returns the scope of the verification or why it is not
/// possible. Sets `mismatch` to a line if the ranks compute a different result.
cost::Verification
verifyInShrunkForm(mlir::ModuleOp fused, const PlanSettings &settings,
                   const cost::Cluster &cluster, const cost::Strategy &strategy,
                   double linkSpeed, int64_t globalBatch,
                   const std::filesystem::path &dir, std::string &mismatch);

void setVerdict(cost::Verification &verification, const Verdict &verdict);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_SHRUNKVERIFY_H
