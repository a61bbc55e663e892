//===- Codegen.h - From local IR to a plan ----------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_CODEGEN_H
#define DPC_CODEGEN_CODEGEN_H

#include "codegen/cpu/CompileKernels.h"
#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc::codegen {

/// What the IR does not say.
struct CodegenOptions {
  std::string model;                ///< name for the plan
  bool trains = false;              ///< the plan updates parameters
  std::string targetCpu = "native"; ///< see resolveTargetCpu
  /// "sm_90": kernels are for GPUs; see checkTargetGpu. "": for CPUs.
  std::string targetGpu;
  /// Kernels for GPUs as functions for this CPU, for tests (GpuKernel.h).
  bool emulatesGpu = false;
  rt::LrSchedule lrSchedule;
};

/// What an instruction is of: the places of the first and the last op among
/// those of its stage's function; -1: it is of none.
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
  /// Contents of PLAN/constants.bin; empty when there is none.
  std::vector<char> constants;
  /// By phase of the plan, for each instruction.
  std::map<std::string, std::vector<SourceOps>> sources;
};

/// Plans `steps`, the functions of the local altitude: one for each pipeline
/// stage, in their order (ops formed into dpc.kernel by dpc-form-kernels;
/// single ops outside of one get a kernel each). Stages share kernels of equal
/// text. The functions are not changed. Fails with one diagnostic at the op or
/// argument that cannot be executed.
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
