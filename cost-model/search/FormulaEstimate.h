//===- FormulaEstimate.h - Strategies estimated by formula ------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

namespace dpc::cost {

/// Estimates a strategy from the totals of the model alone, without the IR. The
/// search orders candidates by their estimates, and shows estimates of
/// baselines that it does not evaluate.
Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const Strategy &strategy);

} // namespace dpc::cost
