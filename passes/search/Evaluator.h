//===- Evaluator.h - Strategies evaluated over the IR ------------*- C++
//-*-===//
#ifndef DPC_PASSES_SEARCH_EVALUATOR_H
#define DPC_PASSES_SEARCH_EVALUATOR_H

#include "cost-model/Search.h"
#include "passes/search/Pipeline.h"

namespace dpc {

/// Evaluates a strategy by compiling the program for it down to the local
/// altitude and estimating that (StepEstimate.h).
class ProgramEvaluator : public cost::Evaluator {
public:
  /// `program` holds @train_step or @forward and must outlive the evaluator.
  /// `common` as for degreesOf.
  ProgramEvaluator(mlir::ModuleOp program, const cost::Cluster &cluster,
                   const ShardDegrees &common = {});

  cost::ModelTotals totals() override { return sums; }
  cost::Bounds bound(const cost::Strategy &strategy) override;
  cost::Evaluation evaluate(const cost::Strategy &strategy) override;

private:
  mlir::ModuleOp program;
  const cost::Cluster &cluster;
  ShardDegrees common; ///< What no strategy says.
  cost::ModelTotals sums;
  bool hasCopies = false;    ///< The model computes with copies of parameters.
  double attentionFlops = 0; ///< Of a step, in sums.flopsPerStep.

  void sumUp(mlir::func::FuncOp func);
  void sumUpArguments(mlir::func::FuncOp func);
};

} // namespace dpc

#endif // DPC_PASSES_SEARCH_EVALUATOR_H
