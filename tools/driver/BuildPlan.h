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

/// The degrees that options fix for all strategies.
LoweringSpec commonDegrees(const CompileOptions &options);

/// Returns `spec` with topk compression replaced by topk:1, which sends whole
/// gradients.
LoweringSpec withWholeGradients(LoweringSpec spec);

/// The relative error that the compression in `spec` causes, for PlanInFolder.
double compressionOf(const LoweringSpec &spec);

/// Returns the options of codegen; `onCpu`: see PlanSettings.
codegen::CodegenOptions codegenOptions(const CompileOptions &options,
                                       bool trains, bool onCpu = false);

/// Settings that all plans of one command share.
struct PlanSettings {
  const CompileOptions &options;
  const rt::InitChoice &initialValues;
  /// The place of each device in cluster.json; empty if the order is the same.
  std::vector<int64_t> places = {};
  /// Compiles kernels for this machine's CPU, to verify a plan for GPUs.
  bool onCpu = false;
};

/// Lowers `program` for `spec` and compiles its kernels into `dir`. Does not
/// write plan.json. Returns nullopt after a diagnostic.
std::optional<rt::Plan>
buildForRanks(const PlanSettings &settings, mlir::ModuleOp program,
              const cost::Cluster &cluster, const LoweringSpec &spec,
              const std::filesystem::path &dir,
              PhaseObserver observer = nullptr, LayoutModel *layouts = nullptr);

/// The same for one device. Batch norms use the same groups of samples as with
/// the ranks and micro-batches of `spec`.
std::optional<rt::Plan> buildForOneDevice(const PlanSettings &settings,
                                          mlir::ModuleOp program,
                                          const LoweringSpec &spec,
                                          const std::filesystem::path &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_BUILDPLAN_H
