//===- FormulaEstimate.h - Strategies estimated by formula ------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_FORMULAESTIMATE_H
#define DPC_COST_MODEL_SEARCH_FORMULAESTIMATE_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

namespace dpc::cost {

/// Estimates a strategy from the totals of the model alone, without the IR. The
/// search orders candidates by their estimates, and shows estimates of
/// baselines that it does not evaluate.
Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const Strategy &strategy);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_FORMULAESTIMATE_H
