//===- HeterogeneousPipeline.h - Heterogeneous groups -----------*- C++ -*-===//
// A pipeline on groups of heterogeneous devices can begin with any group. For
// each order of the groups, the program is lowered and evaluated on a cluster
// with this order. The best order is used.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/price/Evaluator.h"

namespace dpc {

/// Returns the largest fraction of the work for which each stage has memory
/// (LoweringSpec::stageRoom), or nothing if all stages fit. The result is an
/// estimate that assumes bytes proportional to work, so the caller evaluates
/// the new stages and calls this function again.
std::optional<std::vector<double>> roomOfStages(const cost::Evaluation &whole,
                                                const cost::Cluster &cluster,
                                                cost::DType type);

class ArrangedEvaluator : public cost::Evaluator {
public:
  using Maker = std::function<std::unique_ptr<ProgramEvaluator>(
      const cost::Cluster &cluster)>;
  /// `make` creates the evaluator for one order of the groups. The cluster
  /// passed to `make` outlives this evaluator.
  ArrangedEvaluator(const cost::Cluster &cluster, const Maker &make);

  cost::ModelTotals totals() override { return first().totals(); }
  cost::Bounds bound(const cost::Strategy &strategy) override {
    return first().bound(strategy);
  }
  cost::Evaluation evaluate(const cost::Strategy &strategy) override {
    return best(strategy, &Evaluator::evaluate);
  }
  cost::Evaluation evaluateWhole(const cost::Strategy &strategy) override {
    return best(strategy, &Evaluator::evaluateWhole);
  }
  cost::Evaluation describe(const cost::Strategy &strategy) override {
    return best(strategy, &Evaluator::describe);
  }
  void prepareToDescribe() override { first().prepareToDescribe(); }
  std::vector<cost::Evaluation>
  evaluateMany(const std::vector<cost::Strategy> &strategies) override;
  int64_t batchSize() const override { return first().batchSize(); }

private:
  struct Arrangement {
    std::vector<int64_t> groups;
    cost::Cluster cluster;
    std::unique_ptr<ProgramEvaluator> evaluator;
  };
  std::vector<std::unique_ptr<Arrangement>> arrangements;

  ProgramEvaluator &first() const { return *arrangements.front()->evaluator; }
  cost::Evaluation
  best(const cost::Strategy &strategy,
       cost::Evaluation (Evaluator::*evaluate)(const cost::Strategy &));
};

/// Creates an evaluator of `family`, or of `program` if `family` is null.
/// Unless `isArranged`, it tries every order of the cluster's groups.
std::unique_ptr<cost::Evaluator> makeEvaluator(ProgramFamily *family,
                                               mlir::ModuleOp program,
                                               const cost::Cluster &cluster,
                                               bool isArranged,
                                               const LoweringSpec &common);

} // namespace dpc
