//===- FormulaEstimate.h - Strategies estimated by formula ------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"
#include "cost-model/search/GemmTimes.h"

namespace dpc::cost {

/// Estimates a strategy from the totals of the model alone, without the IR. The
/// search orders candidates by their estimates, and shows estimates of
/// baselines that it does not evaluate.
/// `gemms` has the times of `totals` on `cluster`.
Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const GemmTimes &gemms, const Strategy &strategy);
/// Computes the times of the GEMMs for this strategy alone.
Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const Strategy &strategy);

} // namespace dpc::cost
