//===- Totals.h - What the whole program adds up to -------------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_TOTALS_H
#define DPC_PASSES_PRICE_TOTALS_H

#include "cost-model/search/Evaluation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Sums over an unpartitioned @train_step or @forward.
struct ProgramTotals {
  cost::ModelTotals sums;
  bool hasCopies = false;    ///< The model computes with copies of parameters.
  double attentionFlops = 0; ///< Of a step, in sums.flopsPerStep.
};

ProgramTotals sumUp(mlir::func::FuncOp func);

/// Of a program with `layers` layers more than `fewer` has; `more` has one
/// more.
ProgramTotals alongLayers(const ProgramTotals &fewer, const ProgramTotals &more,
                          int64_t layers);

} // namespace dpc

#endif // DPC_PASSES_PRICE_TOTALS_H
