//===- BuildPlan.h - From a program and a strategy to a plan -*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_BUILDPLAN_H
#define DPC_TOOLS_DRIVER_BUILDPLAN_H

#include "codegen/Codegen.h"
#include "passes/lower/Lower.h"
#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>

namespace dpc {

/// What options fix for every strategy.
LoweringSpec commonDegrees(const CompileOptions &options);

/// The same with nothing left out: what is verified of topk.
LoweringSpec withWholeGradients(LoweringSpec degrees);

/// What compressed collectives round, for PlanInFolder.
double compressionOf(const LoweringSpec &degrees);

/// Returns what codegen is told; `onCpu`: see PlanSettings.
codegen::CodegenOptions codegenOptions(const CompileOptions &options,
                                       bool trains, bool onCpu = false);

/// What the plans of one command have in common.
struct PlanSettings {
  const CompileOptions &options;
  const rt::InitChoice &initialValues;
  /// By device, its place in the order of cluster.json; empty: as it is.
  std::vector<int64_t> places = {};
  /// Kernels are for this machine's CPU, whatever the plan is for: to verify.
  bool onCpu = false;
};

/// Lowers `program` for `degrees` and compiles its kernels into `dir`; does not
/// write plan.json. Nullopt after a diagnostic.
std::optional<rt::Plan>
buildForRanks(const PlanSettings &settings, mlir::ModuleOp program,
              const cost::Cluster &cluster, const LoweringSpec &degrees,
              const std::filesystem::path &dir,
              PhaseObserver observer = nullptr, LayoutModel *layouts = nullptr);

/// The same program for one device. What a batch norm computes depends on the
/// micro-batches: it groups the samples as the ranks under `degrees` do.
std::optional<rt::Plan> buildForOneDevice(const PlanSettings &settings,
                                          mlir::ModuleOp program,
                                          const LoweringSpec &degrees,
                                          const std::filesystem::path &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_BUILDPLAN_H
