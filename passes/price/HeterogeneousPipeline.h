//===- HeterogeneousPipeline.h - Strategies on groups of unlike devices -*- C++ -*-===//
//
// A pipeline on groups of unlike devices can begin with any of them: each order
// of the groups is a cluster of its own, which the program is lowered and
// evaluated for. The best order is the strategy's.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_HETEROGENEOUSPIPELINE_H
#define DPC_PASSES_PRICE_HETEROGENEOUSPIPELINE_H

#include "passes/price/Evaluator.h"

namespace dpc {

/// The most of the work, of 1, that each stage of a pipeline has memory for, as
/// LoweringSpec::stageRoom; nothing where all stages fit. Bytes are taken to be
/// in proportion to work, which is not quite so: ask again.
std::optional<std::vector<double>> roomOfStages(const cost::Evaluation &whole,
                                                const cost::Cluster &cluster,
                                                cost::DType type);

/// Evaluates pipelines in every order of a cluster's groups.
class ArrangedEvaluator : public cost::Evaluator {
public:
  using Maker = std::function<std::unique_ptr<ProgramEvaluator>(
      const cost::Cluster &cluster)>;
  /// `make` makes the evaluator of an arrangement, which stays where it is.
  ArrangedEvaluator(const cost::Cluster &cluster, const Maker &make);

  cost::ModelTotals totals() override { return first().totals(); }
  cost::Bounds bound(const cost::Strategy &strategy) override {
    return first().bound(strategy);
  }
  cost::Evaluation evaluate(const cost::Strategy &strategy) override;
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy) override;
  cost::Evaluation describe(const cost::Strategy &strategy) override;
  void prepareToDescribe() override { first().prepareToDescribe(); }
  std::vector<cost::Evaluation>
  evaluateMany(const std::vector<cost::Strategy> &strategies) override;
  int64_t batchSize() const override {
    return arrangements.front()->evaluator->batchSize();
  }

private:
  struct Arrangement {
    std::vector<int64_t> groups;
    cost::Cluster cluster;
    std::unique_ptr<ProgramEvaluator> evaluator;
  };
  std::vector<std::unique_ptr<Arrangement>> arrangements;

  ProgramEvaluator &first() { return *arrangements.front()->evaluator; }
  cost::Evaluation
  best(const cost::Strategy &strategy,
       llvm::function_ref<cost::Evaluation(ProgramEvaluator &)> ask);
};

/// The evaluator of `family`, or of `program` where that is null; in every
/// order of the cluster's groups, unless that is decided.
std::unique_ptr<cost::Evaluator> makeEvaluator(ProgramFamily *family,
                                               mlir::ModuleOp program,
                                               const cost::Cluster &cluster,
                                               bool isArranged,
                                               const LoweringSpec &common);

} // namespace dpc

#endif // DPC_PASSES_PRICE_HETEROGENEOUSPIPELINE_H
