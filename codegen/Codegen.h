//===- Codegen.h - From local IR to a plan ----------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_CODEGEN_H
#define DPC_CODEGEN_CODEGEN_H

#include "codegen/cpu/CompileKernels.h"
#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc::codegen {

/// Settings of a plan that do not follow from the IR.
struct CodegenOptions {
  std::string model;                ///< name of the model in the plan
  bool trains = false;              ///< the plan updates parameters
  std::string targetCpu = "native"; ///< see resolveTargetCpu
  /// The GPU that runs the kernels, such as "sm_90" (see checkTargetGpu); "" if
  /// they run on CPUs.
  std::string targetGpu;
  /// For tests: emits GPU kernels as functions that run on this CPU
  /// (GpuKernel.h).
  bool emulatesGpu = false;
  rt::LrSchedule lrSchedule;
};

/// The ops that an instruction was lowered from: the positions of the first and
/// of the last one in the function of the stage, or -1 if there are none.
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
  /// The source ops of each instruction, by phase of the plan.
  std::map<std::string, std::vector<SourceOps>> sources;
};

/// Plans `steps`, the functions of the local altitude, one for each pipeline
/// stage in the order of the stages. dpc-form-kernels has formed ops into
/// dpc.kernel; each op outside a dpc.kernel gets its own kernel. Stages share
/// kernels with equal text. The functions are not changed. Fails with one
/// diagnostic at the op or argument that cannot be executed.
mlir::FailureOr<PlanDraft> buildPlan(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                     const CodegenOptions &options);

/// Compiles the kernels into `dir`/kernels/kernels.so or kernels.ptx, writes
/// `dir`/constants.bin and completes the plan (kernel file and hash). Does not
/// write plan.json. Fails with a diagnostic.
llvm::LogicalResult writeKernels(PlanDraft &draft, const std::string &dir);

/// Attaches the Lowering interface to all ops that can be executed.
void registerLoweringModels(mlir::DialectRegistry &registry);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_CODEGEN_H
