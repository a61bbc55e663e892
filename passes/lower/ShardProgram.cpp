//===- ShardProgram.cpp - dpc-shard ---------------------------------------===//
#include "passes/lower/Lower.h"

#include "ir/TensorUtils.h"
#include "passes/graph/Passes.h"
#include "passes/lower/Levels.h"
#include "passes/lower/LinkSpeeds.h"
#include "passes/lower/Passes.h"
#include "passes/lower/SpecOptions.h"
#include "passes/shard/ExpertRows.h"
#include "passes/shard/Offload.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Stages.h"

using namespace mlir;
using namespace dpc;

namespace dpc {
#define GEN_PASS_DEF_DPCSHARD
#include "passes/lower/Passes.h.inc"
} // namespace dpc

LogicalResult dpc::prepareToShard(func::FuncOp func, const LoweringSpec &spec) {
  if (failed(expandBatchNorms(func, spec.dp, spec.numMicroBatches)))
    return failure();
  separateConstants(func);
  markRings(func, spec);
  markRoutedRows(func);
  markOffload(func, spec);
  return success();
}

/// Transfers `choices` from the ops and arguments of `from` to those at the
/// same positions in `to`. Returns nullopt if axes, ops or factors differ.
static std::optional<ShardChoices> transfer(const ShardChoices &choices,
                                            const ProgramFacts &from,
                                            const ProgramFacts &to,
                                            const LoweringSpec &spec) {
  ShardChoices result;
  std::vector<MeshAxis> axes = axesOf(spec);
  for (const MeshAxis &axis : choices.axes) {
    auto same = llvm::find_if(
        axes, [&](const MeshAxis &other) { return other.name == axis.name; });
    if (same == axes.end())
      return std::nullopt;
    result.axes.push_back(*same);
  }
  func::FuncOp first = from.func, second = to.func;
  Block &a = first.getBody().front(), &b = second.getBody().front();
  if (a.getNumArguments() != b.getNumArguments() ||
      a.getOperations().size() != b.getOperations().size())
    return std::nullopt;
  for (auto [one, other] : llvm::zip(a.getArguments(), b.getArguments())) {
    if (from.factors.numFactors(one) != to.factors.numFactors(other))
      return std::nullopt;
    if (auto it = choices.arguments.find(one); it != choices.arguments.end())
      result.arguments[other] = it->second;
  }
  for (auto [one, other] : llvm::zip(a, b)) {
    bool isChosen = choices.ops.count(&one);
    if (one.getName() != other.getName() ||
        (isChosen &&
         from.factors.splittable(&one) != to.factors.splittable(&other)))
      return std::nullopt;
    if (isChosen)
      result.ops[&other] = choices.ops.lookup(&one);
  }
  return result;
}

/// Chooses shardings for the program and sizes of `layouts` and transfers them
/// to `facts`. Returns nullopt if the programs differ.
static std::optional<ShardChoices> chooseLike(const LayoutModel &layouts,
                                              const ProgramFacts &facts,
                                              const LoweringSpec &spec) {
  OwningOpRef<ModuleOp> clone(
      cast<ModuleOp>(mlir::ModuleOp(layouts.program)->clone()));
  func::FuncOp func = findProgram(*clone);
  LoweringSpec wideSpec = layouts.spec;
  wideSpec.dataInside = dataRanksInside(layouts.cluster, wideSpec);
  if (failed(prepareToShard(func, wideSpec)))
    return std::nullopt;
  ProgramFacts wide(func);
  auto choices = chooseShards(
      wide, withLinkSpeed(layouts.cluster, wideSpec.linkSpeed), wideSpec);
  return choices ? transfer(*choices, wide, facts, spec) : std::nullopt;
}

static Expected<ShardChoices> choose(const ProgramFacts &facts,
                                     const cost::Cluster &cluster,
                                     const LoweringSpec &spec,
                                     LayoutModel *layouts) {
  std::optional<ShardChoices> given;
  if (layouts)
    given = chooseLike(*layouts, facts, spec);
  if (!given)
    return chooseShards(facts, cluster, spec);
  layouts->isUsed = true;
  return std::move(*given);
}

/// Refuses micro-batches that give a batch norm one element for each channel.
static LogicalResult checkBatchNorms(func::FuncOp func, int64_t microBatches) {
  for (BatchNormOp norm : func.getOps<BatchNormOp>())
    if (tensorType(norm.getX()).getNumElements() ==
        shapeOf(norm.getX())[1] * microBatches)
      return norm.emitError(
                 "batch norm gets one element of each channel in each "
                 "of ")
             << microBatches
             << " micro-batches: its result would be its bias, whatever its "
                "input is; a larger micro_batch is accepted";
  return success();
}

static LogicalResult shard(func::FuncOp func, const cost::Cluster &cluster,
                           const LoweringSpec &asked, LayoutModel *layouts) {
  cost::Cluster links = withLinkSpeed(cluster, asked.linkSpeed);
  LoweringSpec spec = asked;
  spec.dataInside = dataRanksInside(cluster, asked);
  if (spec.numMicroBatches > 1 &&
      failed(checkBatchNorms(func, spec.numMicroBatches)))
    return failure();
  if (spec.numMicroBatches > 1 && hasBatchNorms(func))
    emitRemark(func.getLoc(),
               "batch norm computes its statistics over each of ")
        << spec.numMicroBatches
        << " micro-batches instead of the whole batch, like gradient "
           "accumulation on one device; results differ without micro-batches";
  if (failed(prepareToShard(func, spec)))
    return failure();
  ProgramFacts facts(func);
  if (failed(markStages(facts, links, spec)))
    return failure();
  Expected<ShardChoices> choices = choose(facts, links, spec, layouts);
  if (!choices)
    return func.emitError(choices.message());
  return assignShardings(facts, *choices, spec);
}

namespace {

struct ShardPass : public dpc::impl::DpcShardBase<ShardPass> {
  using DpcShardBase::DpcShardBase;

  void runOnOperation() override {
    func::FuncOp func = findProgram(getOperation());
    if (!func) {
      getOperation().emitError("no function @train_step or @forward to shard");
      return signalPassFailure();
    }
    Expected<SpecOnCluster> read = readSpec(strategy, microBatches, cluster);
    if (!read) {
      func.emitError(read.message());
      return signalPassFailure();
    }
    read->spec.compressGradients = compressGradients;
    read->spec.compressWeights = compressWeights;
    read->spec.linkSpeed = linkSpeed;
    read->spec.stageRoom.assign(stageRoom.begin(), stageRoom.end());
    if (failed(shard(func, read->cluster, read->spec, /*layouts=*/nullptr)))
      signalPassFailure();
  }
};

} // namespace

LogicalResult dpc::shardProgram(ModuleOp module, const cost::Cluster &cluster,
                                const LoweringSpec &spec,
                                LayoutModel *layouts) {
  func::FuncOp func = findProgram(module);
  if (!func)
    return module.emitError("no function @train_step or @forward to compile");
  return shard(func, cluster, spec, layouts);
}
