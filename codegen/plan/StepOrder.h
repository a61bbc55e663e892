//===- StepOrder.h - The ops of a step in execution order -------*- C++ -*-===//
#ifndef DPC_CODEGEN_PLAN_STEPORDER_H
#define DPC_CODEGEN_PLAN_STEPORDER_H

#include "codegen/plan/StepSchedule.h"
#include "ir/StepBuffers.h"
#include "ir/TensorUtils.h"

namespace dpc::codegen {

/// Fails with a diagnostic at an op that has no lowering, whose types cannot be
/// executed, or that looks up in a dimension of several factors.
mlir::LogicalResult checkStep(mlir::func::FuncOp step);

/// Makes a kernel of each op that becomes an instruction only inside of one.
void wrapLooseOps(mlir::func::FuncOp step);
/// A kernel that yields what `emit` makes of the body's arguments.
KernelOp createKernel(
    mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange operands,
    mlir::TypeRange types,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> emit);
/// Replaces `op` by a kernel of it alone.
KernelOp wrap(mlir::Operation *op);

/// Orders the ops; fails where one runs before its operands are made, or in a
/// phase that the schedule lacks. `phaseText` names phases in diagnostics.
mlir::FailureOr<StepBuffers>
orderOf(mlir::func::FuncOp step, const StepSchedule &schedule,
        llvm::function_ref<std::string(int)> phaseText);

/// Short name of what computes `op`, for traces.
std::string nameOfOp(mlir::Operation *op);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_STEPORDER_H
