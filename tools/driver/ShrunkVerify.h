//===- ShrunkVerify.h - Verification of models too large to run --*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_SHRUNKVERIFY_H
#define DPC_TOOLS_DRIVER_SHRUNKVERIFY_H

#include "cost-model/report/Report.h"
#include "cost-model/strategy/StrategyShrink.h"
#include "passes/shrink/Shrink.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Verify.h"

namespace dpc {

/// A model's program of the same structure that runs here, and the strategy on
/// few ranks that goes with it.
struct ShrunkProgram {
  mlir::OwningOpRef<mlir::ModuleOp> program; ///< Ready to be sharded.
  /// The same with all sizes as they were, for which layouts are chosen; and
  /// the degrees of the full strategy.
  mlir::OwningOpRef<mlir::ModuleOp> wide;
  LoweringSpec wideDegrees;
  cost::ShrunkStrategy choice;
  ShrinkSummary summary;
  bool inFp32 = false; ///< The model computes in a narrower type.
};

/// Shrinks `fused` (a module with @forward as dpc-fuse leaves it, which is not
/// changed) for `strategy`, and makes the training step. Computes in fp32,
/// whose roundings hide least. Fails with one diagnostic.
mlir::FailureOr<ShrunkProgram> shrinkForStrategy(mlir::ModuleOp fused,
                                                 const CompileOptions &options,
                                                 const cost::Strategy &strategy,
                                                 int64_t globalBatch);

/// Compiles the shrunk program for its ranks and for one device, in folders
/// inside `dir` that are removed again, and compares them. What tensor and
/// sequence axes do in every op is chosen for the sizes and degrees of the
/// large model; should the programs turn out to be unlike (`keepsLayouts` is
/// set to false), for the small ones. `observer` sees the ranks' program, and
/// may damage it to see what becomes of that.
Verdict verifyShrunk(const ShrunkProgram &shrunk, const PlanSettings &settings,
                     const cost::Cluster &cluster,
                     const std::filesystem::path &dir, bool &keepsLayouts,
                     PhaseObserver observer = nullptr);

/// Both, with diagnostics caught (`linkSpeed`: see cost::Decisions): what is
/// verified, or why nothing is. Sets `mismatch` to a line when the ranks
/// computed something else.
cost::Verification
verifyInShrunkForm(mlir::ModuleOp fused, const PlanSettings &settings,
                   const cost::Cluster &cluster, const cost::Strategy &strategy,
                   double linkSpeed, int64_t globalBatch,
                   const std::filesystem::path &dir, std::string &mismatch);

/// Copies what was compared.
void setVerdict(cost::Verification &verification, const Verdict &verdict);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_SHRUNKVERIFY_H
