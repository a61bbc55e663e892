//===- Totals.h - Sums over the whole program -------------------*- C++ -*-===//
#pragma once

#include "cost-model/search/Evaluation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Sums over the whole @train_step or @forward.
struct ProgramTotals {
  cost::ModelTotals sums;
  double attentionFlops = 0; ///< The FLOPs of attention in sums.flopsPerStep.
};

ProgramTotals sumUp(mlir::func::FuncOp func);

/// Extrapolates to a program with `layers` more layers than `fewer`. `more` has
/// one layer more than `fewer`.
ProgramTotals alongLayers(const ProgramTotals &fewer, const ProgramTotals &more,
                          int64_t layers);

} // namespace dpc
