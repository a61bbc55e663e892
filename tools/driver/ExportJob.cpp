//===- ExportJob.cpp - A compilation as a job of other programs -----------===//
#include "tools/driver/ExportJob.h"

#include "passes/lower/Lower.h"
#include "passes/shard/Passes.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/ModelShape.h"
#include "tools/driver/Pipelines.h"

using namespace mlir;

namespace dpc {

static std::map<std::string, int64_t>
levelsOf(const cost::Cluster &cluster, const cost::Evaluation &evaluation) {
  std::map<std::string, int64_t> levels;
  for (const cost::RankAxis &axis : evaluation.decisions.order) {
    std::string name = axis.name;
    if (StringRef(name).starts_with("tp"))
      name = "tp";
    else if (name == "dpi" || name == "ep")
      name = "dp";
    cost::GroupPlacement group =
        cost::placeGroup(cluster, evaluation.decisions.order, {axis.name});
    for (auto [i, ranks] : llvm::enumerate(group.ranksPerLevel))
      if (ranks > 1)
        levels[name] = std::max<int64_t>(levels[name], i);
  }
  return levels;
}

static exports::ModelShape shapeOf(const Prepared &prepared,
                                   const cost::ModelTotals &totals) {
  exports::ModelShape shape =
      modelShapeOf(findProgram(prepared.program.source()));
  if (shape.sequence == 0)
    shape.sequence = static_cast<int64_t>(totals.tokensPerSample);
  shape.experts = totals.experts;
  return shape;
}

exports::Job jobOf(const CompileOptions &options, const Prepared &prepared) {
  const Machine &machine = prepared.machine;
  cost::ModelTotals totals =
      prepared.program
          .evaluator(machine.cluster, machine.isArranged, commonSpec(options))
          ->totals();
  bool trains = prepared.program.trains();
  exports::Job job;
  job.devicesPerNode = machine.cluster.devicesPerNode();
  job.globalBatch = totals.globalBatch;
  job.precision = options.precision;
  job.trains = trains;
  bool isSgd = options.train == "sgd";
  job.optimizer = {.name = isSgd ? "sgd" : "adamw",
                   .lr = options.lr,
                   .beta1 = options.beta1,
                   .beta2 = options.beta2,
                   .eps = options.eps,
                   .weightDecay =
                       options.weightDecay.value_or(isSgd ? 0 : 0.01),
                   .momentum = options.momentum,
                   .clipGradNorm = options.clipGradNorm};
  job.schedule = {.kind = options.lrSchedule,
                  .warmup = options.warmup,
                  .total = options.totalSteps,
                  .min = options.minLr};
  job.lossScale = {.isUsed = trains && scalesLoss(options),
                   .initial = options.lossScale,
                   .interval = options.lossScaleInterval};
  job.frozen = options.frozen;
  job.model = shapeOf(prepared, totals);
  job.cutsStagesFreely = true;
  return job;
}

exports::Job jobOf(const CompileOptions &options, const Prepared &prepared,
                   const cost::Candidate &plan, const cost::Cluster &used) {
  exports::Job job = jobOf(options, prepared);
  const cost::Decisions &decisions = plan.evaluation.decisions;
  job.strategy = cost::placedStrategy(plan.strategy, decisions);
  job.devicesPerNode = used.devicesPerNode();
  job.levels = levelsOf(used, plan.evaluation);
  job.cutsStagesFreely = false;
  if (plan.strategy.pp > 1)
    if (FailureOr<ModuleOp> whole = prepared.program.whole(); succeeded(whole))
      job.stageLayers =
          layersByStage(*whole, used,
                        specOf(plan.strategy, decisions, job.globalBatch,
                               commonSpec(options)));
  return job;
}

} // namespace dpc
