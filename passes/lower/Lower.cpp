//===- Lower.cpp - From a training step to one rank's program ----------===//
#include "passes/lower/Lower.h"

#include "cost-model/strategy/BatchShares.h"

#include "passes/graph/Passes.h"
#include "passes/local/Passes.h"
#include "passes/lower/Levels.h"
#include "passes/lower/LinkSpeeds.h"
#include "passes/price/UnevenShares.h"
#include "passes/shard/Factors.h"
#include "passes/shard/Offload.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Stages.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace dpc;

ShardDegrees dpc::degreesOf(const cost::Strategy &strategy, int64_t globalBatch,
                            const ShardDegrees &common) {
  ShardDegrees degrees = common;
  degrees.dp = strategy.dp;
  degrees.tp = strategy.tp;
  degrees.sp = strategy.sp;
  degrees.zero = strategy.zero;
  degrees.pp = strategy.pp;
  degrees.cp = strategy.cp;
  degrees.cpKind =
      strategy.cpKind == "ulysses" ? CpKind::ulysses : CpKind::ring;
  degrees.tpGrid.assign(strategy.tpGrid.begin(), strategy.tpGrid.end());
  degrees.hybridShard = strategy.hybridShard;
  degrees.vpp = strategy.vpp;
  degrees.schedule = cost::symbolizeScheduleKind(strategy.schedule)
                         .value_or(cost::ScheduleKind::OneFOneB);
  degrees.ep = strategy.ep;
  degrees.microBatches = strategy.microBatches(globalBatch);
  degrees.recompute = strategy.recompute;
  degrees.offload = strategy.offload;
  degrees.offloadTo = strategy.offloadTo;
  if (auto placement = cost::parsePlacement(strategy.placement))
    degrees.placement = placement->axes;
  if (auto shares = cost::parseBatchShares(strategy.batchShares))
    degrees.batchShares = *shares;
  return degrees;
}

ShardDegrees dpc::degreesOf(const cost::Strategy &strategy,
                            const cost::Decisions &decisions,
                            int64_t globalBatch, const ShardDegrees &common) {
  ShardDegrees degrees =
      degreesOf(cost::placedStrategy(strategy, decisions), globalBatch, common);
  degrees.stageRoom = decisions.stageRoom;
  degrees.linkSpeed = decisions.linkSpeed;
  return degrees;
}

static std::string checkpointOptions(cost::Checkpoints checkpoints) {
  switch (checkpoints) {
  case cost::Checkpoints::Planned:
    return "";
  case cost::Checkpoints::Layers:
    return " layers";
  case cost::Checkpoints::WholeLayers:
    return " layers whole";
  }
  llvm_unreachable("all kinds are handled");
}

static std::string attentionPass(const ShardDegrees &degrees) {
  std::string options = degrees.attentionMustFuse ? " require=true" : "";
  switch (degrees.attention) {
  case AttentionForm::automatic:
  case AttentionForm::expanded:
    return "dpc-expand-attention,";
  case AttentionForm::fused:
    return "dpc-expand-attention{keep=cudnn" + options + "},";
  case AttentionForm::loops:
    return "dpc-expand-attention{keep=loops" + options + "},";
  case AttentionForm::whole:
    return "";
  }
  llvm_unreachable("all forms are handled");
}

/// What all strategies share that differ by what backward makes again.
static std::string sharedPipeline(const ShardDegrees &degrees) {
  std::string text = "dpc-partition{drop-sharded=true},";
  if (degrees.pp > 1) {
    auto shares = sharesOf(degrees);
    int64_t most = shares && !shares->empty() ? *llvm::max_element(*shares) : 0;
    text += "dpc-split-stages{schedule=" +
            std::string(cost::stringifyScheduleKind(degrees.schedule)) +
            " chunks=" + std::to_string(degrees.vpp) +
            " micro-batches=" + std::to_string(most) + "},";
  }
  text += attentionPass(degrees);
  // Functions of one block have no regions to simplify.
  return text + "canonicalize{region-simplify=disabled},cse";
}

static std::string recomputePipeline(const ShardDegrees &degrees) {
  std::string depth = " depth=" + std::to_string(degrees.depth);
  return "dpc-recompute{alive=" + std::to_string(degrees.alive) + depth +
         " gather=" + std::to_string(degrees.gatherCost) +
         checkpointOptions(degrees.checkpoints) +
         "},dpc-bucket-collectives{bucket-bytes=" +
         std::to_string(degrees.bucketBytes) + depth + "}";
}

/// Once it is known which collectives there are.
static constexpr llvm::StringLiteral kCollectivePipeline =
    "dpc-compress-collectives,dpc-expand-hierarchy,dpc-form-kernels,"
    "dpc-offload";

func::FuncOp dpc::findStep(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>("step");
}

SmallVector<func::FuncOp> dpc::findSteps(ModuleOp module) {
  if (func::FuncOp step = findStep(module))
    return {step};
  SmallVector<func::FuncOp> steps;
  while (auto step = module.lookupSymbol<func::FuncOp>(
             "step." + std::to_string(steps.size())))
    steps.push_back(step);
  return steps;
}

LogicalResult dpc::prepareToShard(func::FuncOp func,
                                  const ShardDegrees &degrees) {
  if (failed(expandBatchNorms(func, degrees.dp, degrees.microBatches)))
    return failure();
  separateConstants(func);
  markRings(func, degrees);
  markOffload(func, degrees);
  return success();
}

/// Says which ranks are next to each other, where that is not mesh order.
static void markPlacement(func::FuncOp step, const ShardDegrees &degrees) {
  if (degrees.placement.empty())
    return;
  SmallVector<StringRef> names;
  cost::RankOrder order = rankOrder(degrees);
  for (const cost::RankAxis &axis : order)
    names.push_back(axis.name);
  step->setAttr(attr::kPlacement,
                Builder(step.getContext()).getStrArrayAttr(names));
}

/// Gives the ranks of all stages their shares of the batch, where they can be
/// unlike.
static LogicalResult setShares(ModuleOp module, const ShardDegrees &degrees) {
  std::vector<int64_t> shares = *sharesOf(degrees);
  if (shares.empty())
    return success();
  for (func::FuncOp step : findSteps(module)) {
    if (std::string why = whyEvenShares(step); !why.empty())
      return step.emitError("batch_shares=" + cost::stringifyShares(shares) +
                            ": " + why + "; expected batch_shares=even");
    markShares(step, shares);
  }
  return success();
}

/// `choices` for the ops and arguments of `from`, for those of `to` at the same
/// places. Nothing where the two are unlike: choices count dimensions and their
/// factors.
static std::optional<ShardChoices> transfer(const ShardChoices &choices,
                                            const ProgramFacts &from,
                                            const ProgramFacts &to,
                                            const ShardDegrees &degrees) {
  ShardChoices result;
  std::vector<MeshAxis> axes = axesOf(degrees);
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

/// The choices that `layouts` makes for its own sizes.
static std::optional<ShardChoices> chooseLike(const LayoutModel &layouts,
                                              const ProgramFacts &facts,
                                              const ShardDegrees &degrees) {
  OwningOpRef<ModuleOp> clone(
      cast<ModuleOp>(mlir::ModuleOp(layouts.program)->clone()));
  func::FuncOp func = findProgram(*clone);
  ShardDegrees wideDegrees = layouts.degrees;
  wideDegrees.dataInside = dataRanksInside(layouts.cluster, wideDegrees);
  if (failed(prepareToShard(func, wideDegrees)))
    return std::nullopt;
  ProgramFacts wide(func);
  auto choices = chooseShards(
      wide, withLinkSpeed(layouts.cluster, wideDegrees.linkSpeed), wideDegrees);
  return choices ? transfer(*choices, wide, facts, degrees) : std::nullopt;
}

static Expected<ShardChoices> choose(const ProgramFacts &facts,
                                     const cost::Cluster &cluster,
                                     const ShardDegrees &degrees,
                                     LayoutModel *layouts) {
  std::optional<ShardChoices> given;
  if (layouts)
    given = chooseLike(*layouts, facts, degrees);
  if (!given)
    return chooseShards(facts, cluster, degrees);
  layouts->isUsed = true;
  return std::move(*given);
}

/// Runs passes over all of `module`.
static LogicalResult runPasses(ModuleOp module, StringRef pipeline,
                               bool verifies) {
  PassManager pm(module.getContext());
  // Estimates are many; what is built is verified.
  pm.enableVerifier(verifies);
  return failure(failed(parsePassPipeline(pipeline, pm, llvm::errs())) ||
                 failed(pm.run(module)));
}

FailureOr<OwningOpRef<ModuleOp>>
dpc::lowerToShared(ModuleOp program, const cost::Cluster &cluster,
                   const ShardDegrees &asked, PhaseObserver observer,
                   LayoutModel *layouts, bool verifies) {
  if (auto shares = sharesOf(asked); !shares)
    return program.emitError("--strategy: " + shares.message());
  cost::Cluster links = withLinkSpeed(cluster, asked.linkSpeed);
  ShardDegrees degrees = asked;
  degrees.dataInside = dataRanksInside(cluster, asked);
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(program->clone()));
  func::FuncOp func = findProgram(*module);
  if (!func)
    return program.emitError("no function @train_step or @forward to compile");
  if (degrees.microBatches > 1 && hasBatchNorms(func))
    emitRemark(func.getLoc(), "batch norm takes its statistics over each of ")
        << degrees.microBatches
        << " micro-batches instead of the whole batch, as on one device that "
           "accumulates gradients; it computes something else without them";
  if (failed(prepareToShard(func, degrees)))
    return failure();
  ProgramFacts facts(func);
  if (failed(markStages(facts, links, degrees)))
    return failure();
  Expected<ShardChoices> choices = choose(facts, links, degrees, layouts);
  if (!choices)
    return func.emitError(choices.message());
  if (failed(assignShardings(facts, *choices, degrees)))
    return failure();
  if (verifies && failed(verify(*module)))
    return failure();
  if (observer)
    observer("sharded", *module);
  if (failed(runPasses(*module, sharedPipeline(degrees), verifies)))
    return failure();
  return module;
}

LogicalResult dpc::lowerRest(ModuleOp module, const cost::Cluster &cluster,
                             const ShardDegrees &asked, bool verifies) {
  ShardDegrees degrees = asked;
  degrees.dataInside = dataRanksInside(cluster, asked);
  degrees.gatherCost =
      gatherCost(withLinkSpeed(cluster, asked.linkSpeed), asked);
  for (func::FuncOp step : findSteps(module))
    if (degrees.recompute != "none")
      step->setAttr(kRecomputeAttr,
                    StringAttr::get(module.getContext(), degrees.recompute));
  if (failed(runPasses(module, recomputePipeline(degrees), verifies)))
    return failure();
  for (func::FuncOp step : findSteps(module)) {
    markPlacement(step, degrees);
    markHierarchies(step, cluster);
  }
  if (failed(setShares(module, degrees)))
    return failure();
  std::string collectives = kCollectivePipeline.str();
  if (degrees.endsProducts)
    collectives += ",dpc-end-products";
  if (verifies)
    collectives += ",dpc-verify-local";
  return runPasses(module, collectives, verifies);
}

FailureOr<OwningOpRef<ModuleOp>>
dpc::lowerForStrategy(ModuleOp program, const cost::Cluster &cluster,
                      const ShardDegrees &degrees, PhaseObserver observer,
                      LayoutModel *layouts, bool verifies) {
  verifies = verifies && observer;
  auto module =
      lowerToShared(program, cluster, degrees, observer, layouts, verifies);
  if (failed(module) || failed(lowerRest(**module, cluster, degrees, verifies)))
    return failure();
  if (observer)
    observer("local", **module);
  return module;
}
