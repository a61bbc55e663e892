//===- ScheduleTable.h - The schedule of a stage's function -----*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the schedule steps of a step function, in order, from its
/// `dpc.schedule`; empty if there is one stage and one pass over the
/// micro-batches.
std::vector<cost::ScheduleStep> tableOf(mlir::func::FuncOp step);

/// Sets `dpc.schedule`.
void setTable(mlir::func::FuncOp step,
              llvm::ArrayRef<cost::ScheduleStep> table);

/// Returns how many passes over the micro-batches compute only sums
/// (PartitionTotals.cpp).
int64_t totalsPassesOf(mlir::func::FuncOp step);

} // namespace dpc
