//===- Codegen.h - From local IR to a plan ----------------------*- C++ -*-===//
#pragma once

#include "codegen/cpu/CompileKernels.h"
#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc::codegen {

/// Settings of a plan that do not follow from the IR.
struct CodegenOptions {
  std::string model;
  bool trains = false;
  std::string targetCpu = "native"; ///< see resolveTargetCpu
  /// The target GPU, such as "sm_90" (see checkTargetGpu), or "" for kernels
  /// that run on CPUs.
  std::string targetGpu;
  /// For tests: emits GPU kernels as functions for this CPU (GpuKernel.h).
  bool emulatesGpu = false;
  rt::LrSchedule lrSchedule;
};

/// The ops from which an instruction was lowered: the first and the last
/// position in the function of the stage, or -1 if there are none.
struct SourceOps {
  int64_t first = -1, last = -1;
};

/// A plan whose kernels are not compiled yet.
struct PlanDraft {
  rt::Plan plan;
  TargetCpu cpu;
  std::string targetGpu;
  bool emulatesGpu = false;
  /// One public function per distinct kernel.
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
  /// The contents of PLAN/constants.bin; empty if the plan has no constants.
  std::vector<char> constants;
  /// sources[phase][i] are the source ops of instruction i of the phase.
  std::map<std::string, std::vector<SourceOps>> sources;
};

/// Plans `steps`, which has one function at the local altitude for each
/// pipeline stage, in stage order. Expects that dpc-form-kernels has grouped
/// ops into dpc.kernel; each remaining op gets a separate kernel. Stages share
/// kernels with equal text. Does not change the functions. Fails with one
/// diagnostic, at the op or argument that cannot be executed.
mlir::FailureOr<PlanDraft> buildPlan(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                     const CodegenOptions &options);

/// Compiles the kernels into `dir`/kernels/kernels.so or kernels.ptx, writes
/// `dir`/constants.bin, and sets the kernel file and its hash in the plan. Does
/// not write plan.json. Fails with a diagnostic.
llvm::LogicalResult writeKernels(PlanDraft &draft, const std::string &dir);

/// Attaches the Lowering interface to all ops that can be executed.
void registerLoweringModels(mlir::DialectRegistry &registry);

} // namespace dpc::codegen
