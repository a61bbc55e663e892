//===- Totals.h - Sums over the whole program -------------------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_TOTALS_H
#define DPC_PASSES_PRICE_TOTALS_H

#include "cost-model/search/Evaluation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Sums over an unpartitioned @train_step or @forward.
struct ProgramTotals {
  cost::ModelTotals sums;
  bool hasCopies = false;    ///< Parameters are master weights.
  double attentionFlops = 0; ///< A part of sums.flopsPerStep.
};

ProgramTotals sumUp(mlir::func::FuncOp func);

/// The totals of a program with `layers` more layers than `fewer`. `more` has
/// one more layer than `fewer`.
ProgramTotals alongLayers(const ProgramTotals &fewer, const ProgramTotals &more,
                          int64_t layers);

} // namespace dpc

#endif // DPC_PASSES_PRICE_TOTALS_H
