//===- HeterogeneousPipeline.cpp - Pipelines on heterogeneous groups ------===//
#include "passes/price/HeterogeneousPipeline.h"

#include "cost-model/machine/ComputeCost.h"
#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/Feasibility.h"
#include "runtime/base/Parallel.h"

using namespace mlir;
using namespace dpc;

std::optional<std::vector<double>>
dpc::roomOfStages(const cost::Evaluation &whole, const cost::Cluster &cluster,
                  cost::DType type) {
  auto isFull = [](const cost::StageEvaluation &stage) {
    return stage.memoryBytes > stage.memoryLimitBytes;
  };
  if (llvm::none_of(whole.stages, isFull))
    return std::nullopt;
  auto speedOf = [&](const std::string &name) {
    for (const cost::NodeGroup &group : cluster.groups)
      if (group.device.name == name)
        return group.device.peak(cost::computeType(group.device, type));
    return 1.0;
  };
  std::vector<double> work;
  double all = 0;
  for (const cost::StageEvaluation &stage : whole.stages) {
    work.push_back(
        (stage.forwardSeconds + stage.backwardSeconds + stage.weightSeconds) *
        speedOf(stage.device));
    all += work.back();
  }
  // Cuts are between ops, so a stage may get slightly more than its share.
  constexpr double kMargin = 0.97;
  std::vector<double> room;
  for (auto [stage, own] : llvm::zip(whole.stages, work))
    room.push_back(kMargin * own / all * stage.memoryLimitBytes /
                   std::max(1.0, stage.memoryBytes));
  return room;
}

ArrangedEvaluator::ArrangedEvaluator(const cost::Cluster &cluster,
                                     const Maker &make) {
  for (const std::vector<int64_t> &groups : cost::groupOrders(cluster)) {
    auto next = std::make_unique<Arrangement>();
    next->groups = groups;
    next->cluster = *cost::arrangeGroups(cluster, groups);
    next->evaluator = make(next->cluster);
    arrangements.push_back(std::move(next));
  }
}

cost::Evaluation ArrangedEvaluator::best(
    const cost::Strategy &strategy,
    cost::Evaluation (cost::Evaluator::*evaluate)(const cost::Strategy &)) {
  cost::Evaluation best = (first().*evaluate)(strategy);
  cost::Feasibility feasibility(arrangements.front()->cluster);
  // Evaluations that fit the memory come first, and evaluations that exceed it
  // the least come next. On ties the fastest comes first.
  auto rank = [&](const cost::Evaluation &evaluation) {
    return std::tuple(!evaluation.rejected.empty(),
                      feasibility.excessBytes(evaluation),
                      evaluation.stepSeconds);
  };
  // Without stages all ranks do the same work, so their order is irrelevant.
  if (strategy.pp == 1 &&
      strategy.ranks() == arrangements.front()->cluster.numDevices())
    return best;
  for (auto &arrangement : llvm::drop_begin(arrangements)) {
    cost::Evaluation next = ((*arrangement->evaluator).*evaluate)(strategy);
    if (!(rank(next) < rank(best)))
      continue;
    best = std::move(next);
    best.decisions.groups = arrangement->groups;
  }
  return best;
}

std::vector<cost::Evaluation>
ArrangedEvaluator::evaluateMany(const std::vector<cost::Strategy> &strategies) {
  std::vector<cost::Evaluation> evaluations(strategies.size());
  parallelFor(strategies.size(), 1,
              [&](size_t i) { evaluations[i] = evaluate(strategies[i]); });
  return evaluations;
}

std::unique_ptr<cost::Evaluator>
dpc::makeEvaluator(ProgramFamily *family, ModuleOp program,
                   const cost::Cluster &cluster, bool isArranged,
                   const LoweringSpec &common) {
  auto make = [=](const cost::Cluster &arranged) {
    return family
               ? std::make_unique<ProgramEvaluator>(*family, arranged, common)
               : std::make_unique<ProgramEvaluator>(program, arranged, common);
  };
  if (cost::isHeterogeneous(cluster) && !isArranged)
    return std::make_unique<ArrangedEvaluator>(cluster, make);
  return make(cluster);
}
