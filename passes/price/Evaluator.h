//===- Evaluator.h - Strategies evaluated over the IR -----------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_EVALUATOR_H
#define DPC_PASSES_PRICE_EVALUATOR_H

#include "cost-model/search/Evaluator.h"
#include "passes/price/Fold.h"
#include "passes/price/Totals.h"

namespace dpc {

/// `degrees` as estimates take them: attention stays one op where the cluster's
/// software has kernels for it in `type`, products do what follows them where
/// it is this compiler on GPUs.
LoweringSpec pricedDegrees(LoweringSpec degrees, const cost::Software &software,
                           cost::DType type);

/// Evaluates a strategy by compiling the program for it down to the local
/// altitude and estimating that (StepEstimate.h), or a few layers of it where
/// there are many (Fold.h). Of a small program on few devices all programs that
/// links of some speed would make of the strategy (LinkSpeeds.h), the best of
/// which counts.
class ProgramEvaluator : public cost::Evaluator {
public:
  /// `program` holds @train_step or @forward and must outlive the evaluator.
  /// All of it is compiled. `common` as for degreesOf.
  ProgramEvaluator(mlir::ModuleOp program, const cost::Cluster &cluster,
                   const LoweringSpec &common = {});
  /// Folds layers where there are enough. `family` can make the whole program,
  /// and outlives the evaluator.
  ProgramEvaluator(ProgramFamily &family, const cost::Cluster &cluster,
                   const LoweringSpec &common = {});

  cost::ModelTotals totals() override { return totalsOfProgram.sums; }
  cost::Bounds bound(const cost::Strategy &strategy) override;
  cost::Evaluation evaluate(const cost::Strategy &strategy) override;
  /// On several threads.
  std::vector<cost::Evaluation>
  evaluateMany(const std::vector<cost::Strategy> &strategies) override;
  int64_t batchSize() const override { return 4; }
  std::string blockOf(const cost::Strategy &strategy) override;
  /// Blocks on several threads.
  std::vector<std::vector<std::optional<cost::Composition>>>
  compose(const std::vector<std::vector<cost::Strategy>> &blocks,
          double limit) override;
  /// Without folding.
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy) override;
  cost::Evaluation describe(const cost::Strategy &strategy) override;
  void prepareToDescribe() override;

private:
  ProgramFamily *family = nullptr; ///< Or a program:
  mlir::ModuleOp program;
  const cost::Cluster &cluster;
  LoweringSpec common; ///< What no strategy says.
  SharedLowering lowering;
  ProgramTotals totalsOfProgram;
  std::unique_ptr<Folder> folder; ///< Where layers are folded.

  LoweringSpec degreesFor(const cost::Strategy &strategy) const;
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy,
                                 bool describes);
  cost::Evaluation evaluateWhole(const LoweringSpec &asked, bool describes);
  cost::Evaluation evaluateCut(const LoweringSpec &degrees, bool describes);
  cost::Evaluation evaluateOne(const LoweringSpec &degrees);
  bool isSmall() const;
  cost::Evaluation evaluateAtSpeeds(const LoweringSpec &degrees);
  bool isBetter(const cost::Evaluation &a, const cost::Evaluation &b) const;
  cost::Evaluation placed(
      LoweringSpec degrees,
      llvm::function_ref<cost::Evaluation(const LoweringSpec &)> evaluateOne);
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_EVALUATOR_H
