//===- ScheduleTable.h - The schedule of a stage's function -----*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the schedule steps of a stage function, in order, from its
/// `dpc.schedule`; empty without pipeline stages.
std::vector<cost::ScheduleStep> tableOf(mlir::func::FuncOp step);

} // namespace dpc
