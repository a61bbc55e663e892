//===- BuildPlan.h - From a program and a strategy to a plan -*- C++ -*-===//
#pragma once

#include "codegen/Codegen.h"
#include "passes/lower/Lower.h"
#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>

namespace dpc {

/// Returns the settings that options fix for all strategies.
LoweringSpec commonSpec(const CompileOptions &options);

/// Replaces topk compression by topk:1, which sends whole gradients.
LoweringSpec withWholeGradients(LoweringSpec spec);

/// Returns the relative error of gradients that compression causes, for
/// PlanInFolder.
double compressionOf(const LoweringSpec &spec);

/// `onCpu`: see PlanSettings.
codegen::CodegenOptions codegenOptions(const CompileOptions &options,
                                       bool trains, bool onCpu = false);

struct PlanSettings {
  const CompileOptions &options;
  const rt::InitChoice &initialValues;
  std::vector<int64_t> places = {};
  /// Whether to compile kernels for this machine's CPU, to verify a plan for
  /// GPUs.
  bool onCpu = false;
  /// The described files of weights; buildForRanks() reads any others.
  llvm::ArrayRef<rt::SourceFile> sourceFiles = {};
};

/// Lowers `program` for `spec` and compiles its kernels into `dir`. Does not
/// write plan.json. Returns nullopt after a diagnostic.
std::optional<rt::Plan>
buildForRanks(const PlanSettings &settings, mlir::ModuleOp program,
              const cost::Cluster &cluster, const LoweringSpec &spec,
              const std::filesystem::path &dir,
              PhaseObserver observer = nullptr, LayoutModel *layouts = nullptr);

/// Like buildForRanks, for one device. Batch norms use the groups of samples
/// that the ranks and micro-batches of `spec` have.
std::optional<rt::Plan> buildForOneDevice(const PlanSettings &settings,
                                          mlir::ModuleOp program,
                                          const LoweringSpec &spec,
                                          const std::filesystem::path &dir);

} // namespace dpc
