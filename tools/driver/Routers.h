//===- Routers.h - How tokens reach experts in a program --------*- C++ -*-===//
#pragma once

#include "cost-model/report/ExpertLoads.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace dpc {

/// Stores in `model`, a fused @forward, how many rows `routing` gives to the
/// fullest ranks of experts. Returns what is wrong, or "".
std::string storeRouting(mlir::ModuleOp model, const cost::Routing &routing);

/// Returns the loads that storeRouting stores for `routing` if `program` takes
/// a different time with it than with balanced routing; otherwise nothing.
std::vector<double> loadsOfRouting(mlir::func::FuncOp program,
                                   const cost::Routing &routing);

/// Returns the loads of `ranks` ranks that share the `experts` experts of
/// `program`, or nothing if no router is recognized.
std::optional<cost::ExpertLoads> expertLoadsOf(mlir::func::FuncOp program,
                                               int64_t experts, int64_t ranks,
                                               const cost::Routing &routing);

} // namespace dpc
