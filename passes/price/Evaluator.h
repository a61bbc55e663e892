//===- Evaluator.h - Strategies evaluated over the IR -----------*- C++ -*-===//
#pragma once

#include "cost-model/search/Evaluator.h"
#include "passes/price/Fold.h"
#include "passes/price/Totals.h"

namespace dpc {

/// Adapts `spec` for estimates: attention stays one op if `software` has
/// attention kernels for `type`, and GEMMs have epilogues if `software` is this
/// compiler on GPUs.
LoweringSpec pricedSpec(LoweringSpec spec, const cost::Software &software,
                        cost::DType type);

/// Evaluates a strategy: lowers the program to the local altitude and estimates
/// its costs (StepEstimate.h). In place of a deep model, versions with few
/// layers are lowered (Fold.h). A small program on few devices is lowered for
/// several link speeds (LinkSpeeds.h), and the best evaluation is returned.
class ProgramEvaluator : public cost::Evaluator {
public:
  /// Always lowers the whole program. `program` contains @train_step or
  /// @forward and must outlive the evaluator. All strategies share `common`.
  ProgramEvaluator(mlir::ModuleOp program, const cost::Cluster &cluster,
                   const LoweringSpec &common = {});
  /// Folds layers if the model has enough of them. `family` must be able to
  /// build the whole program and must outlive the evaluator.
  ProgramEvaluator(ProgramFamily &family, const cost::Cluster &cluster,
                   const LoweringSpec &common = {});

  cost::ModelTotals totals() override { return totalsOfProgram.sums; }
  cost::Bounds bound(const cost::Strategy &strategy) override;
  cost::Evaluation evaluate(const cost::Strategy &strategy) override;
  /// Uses several threads.
  std::vector<cost::Evaluation>
  evaluateMany(const std::vector<cost::Strategy> &strategies) override;
  int64_t batchSize() const override { return 4; }
  std::string blockOf(const cost::Strategy &strategy) override;
  /// Uses several threads.
  std::vector<std::vector<std::optional<cost::Composition>>>
  compose(const std::vector<std::vector<cost::Strategy>> &blocks,
          double limit) override;
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy) override {
    return evaluateWhole(strategy, /*describes=*/false);
  }
  cost::Evaluation describe(const cost::Strategy &strategy) override {
    return evaluateWhole(strategy, /*describes=*/true);
  }
  void prepareToDescribe() override;

private:
  /// Null if the evaluator has a fixed program.
  ProgramFamily *family = nullptr;
  mlir::ModuleOp program;
  const cost::Cluster &cluster;
  LoweringSpec common;
  SharedLowering lowering;
  ProgramTotals totalsOfProgram;
  std::unique_ptr<Folder> folder; ///< Null if layers are not folded.

  LoweringSpec specFor(const cost::Strategy &strategy) const;
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy,
                                 bool describes);
  cost::Evaluation evaluateWhole(const LoweringSpec &requested, bool describes);
  cost::Evaluation evaluateCut(const LoweringSpec &spec, bool describes);
  cost::Evaluation evaluateOne(const LoweringSpec &spec);
  bool isSmall() const;
  cost::Evaluation evaluateAtSpeeds(const LoweringSpec &spec);
  cost::Evaluation placed(
      LoweringSpec spec,
      llvm::function_ref<cost::Evaluation(const LoweringSpec &)> evaluateOne);
};

} // namespace dpc
