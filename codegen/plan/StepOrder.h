//===- StepOrder.h - The ops of a step in execution order -------*- C++ -*-===//
#pragma once

#include "codegen/plan/StepSchedule.h"
#include "ir/StepBuffers.h"
#include "ir/TensorUtils.h"

namespace dpc::codegen {

/// Fails with a diagnostic at an op that has no lowering, has a type that
/// cannot be executed, or indexes a dimension of several factors.
mlir::LogicalResult checkStep(mlir::func::FuncOp step);

/// Wraps each op that is outside kernels, but can only be executed in a kernel.
void wrapLooseOps(mlir::func::FuncOp step);
/// Creates a kernel that yields the values that `emit` creates from the
/// arguments of the body.
KernelOp createKernel(
    mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange operands,
    mlir::TypeRange types,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> emit);
/// Replaces `op` by a kernel that contains only `op`.
KernelOp wrap(mlir::Operation *op);

/// Orders the ops by phase. Fails if an op precedes an op that computes one of
/// its operands, or if its phase is not in the schedule.
mlir::FailureOr<StepBuffers>
orderOf(mlir::func::FuncOp step, const StepSchedule &schedule,
        llvm::function_ref<std::string(int)> phaseText);

/// Returns a short name of `op` for traces.
std::string nameOfOp(mlir::Operation *op);

} // namespace dpc::codegen
