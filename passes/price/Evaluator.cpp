//===- Evaluator.cpp - Strategies evaluated over the IR -------------------===//
#include "passes/price/Evaluator.h"
#include "passes/price/ShareTime.h"

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/machine/SoftwareMemory.h"
#include "cost-model/search/Feasibility.h"
#include "cost-model/search/IdleDevices.h"
#include "passes/lower/FirstError.h"
#include "passes/lower/LinkSpeeds.h"
#include "passes/price/DescribeStep.h"
#include "passes/price/HeterogeneousPipeline.h"
#include "passes/price/SoftwareBuffers.h"
#include "passes/price/StepEstimate.h"
#include "passes/shard/Passes.h"
#include "runtime/base/Parallel.h"

using namespace mlir;
using namespace dpc;

ProgramEvaluator::ProgramEvaluator(ModuleOp program,
                                   const cost::Cluster &cluster,
                                   const LoweringSpec &common)
    : program(program), cluster(cluster), common(common), lowering(cluster),
      totalsOfProgram(sumUp(findProgram(program))) {}

ProgramEvaluator::ProgramEvaluator(ProgramFamily &family,
                                   const cost::Cluster &cluster,
                                   const LoweringSpec &common)
    : family(&family), cluster(cluster), common(common), lowering(cluster),
      folder(std::make_unique<Folder>(family, lowering)) {
  constexpr int64_t kLayers = 2;
  if (folder->canFold()) {
    FailureOr<ModuleOp> fewer = family.program(kLayers);
    FailureOr<ModuleOp> more = family.program(kLayers + 1);
    if (succeeded(fewer) && succeeded(more)) {
      totalsOfProgram =
          alongLayers(sumUp(findProgram(*fewer)), sumUp(findProgram(*more)),
                      family.layers() - kLayers);
      return;
    }
  }
  folder.reset();
  FailureOr<ModuleOp> whole = family.whole();
  assert(succeeded(whole) && "the family can build the whole program");
  program = *whole;
  totalsOfProgram = sumUp(findProgram(program));
}

/// The bounds are means over stages, which are at most the maximum.
cost::Bounds ProgramEvaluator::bound(const cost::Strategy &strategy) {
  const cost::ModelTotals &sums = totalsOfProgram.sums;
  cost::Bounds bounds;
  // The largest number of shards. ZeRO also shards over context-parallel ranks,
  // and experts may be sharded over any ranks of a stage.
  double stage = strategy.dp * strategy.cp * strategy.tp;
  double split = std::min<double>(strategy.tp * strategy.ep, stage);
  double data = strategy.cp *
                (strategy.hybridShard > 1 ? strategy.hybridShard : strategy.dp);
  auto shareOf = [&](bool isSharded) {
    return (isSharded ? std::min(split * data, stage) : split) * strategy.pp;
  };
  // Master weights count as optimizer states.
  bool hasCopies = sums.copyBytes > 0;
  bool keepsWeights =
      strategy.offload == cost::Offload::None ||
      (strategy.offload == cost::Offload::Optimizer && !hasCopies);
  if (keepsWeights)
    bounds.memoryBytes +=
        sums.parameterBytes /
        shareOf(strategy.zero == 3 || (hasCopies && strategy.zero > 0));
  if (strategy.offload == cost::Offload::None ||
      strategy.offload == cost::Offload::Parameters)
    bounds.memoryBytes += sums.optimizerBytes / shareOf(strategy.zero > 0);
  // The rank with the most samples has ceil(batch / dp) of them.
  const cost::Device &device = cluster.slowestDevice(sums.computeType);
  double peak =
      *std::max_element(device.peakFlops.begin(), device.peakFlops.end());
  double samples = ceilDiv(sums.globalBatch, strategy.dp);
  // On a heterogeneous cluster, batch shares may be uneven.
  if (cost::isHeterogeneous(cluster)) {
    peak = cost::meanPeak(cluster, strategy.ranks());
    samples = static_cast<double>(sums.globalBatch) / strategy.dp;
  }
  double share =
      samples / sums.globalBatch / (strategy.tp * strategy.cp * strategy.pp);
  // With causal attention, sequence shards may skip the masked half.
  double flops = sums.flopsPerStep -
                 (strategy.cp > 1 ? totalsOfProgram.attentionFlops / 2 : 0);
  bounds.stepSeconds = flops * share / peak;
  return bounds;
}

/// In other frameworks, fused attention requires a 16-bit type, and GEMMs have
/// no epilogues.
LoweringSpec dpc::pricedSpec(LoweringSpec spec, const cost::Software &software,
                             cost::DType type) {
  using cost::AttentionKernels;
  bool isHalf = type == cost::DType::BF16 || type == cost::DType::F16;
  spec.checkpoints = software.checkpoints;
  switch (software.attention) {
  case AttentionKernels::Planned:
    break;
  case AttentionKernels::Cudnn:
    if (spec.attention == AttentionForm::automatic)
      spec.attention = AttentionForm::fused;
    spec.fusesEpilogues = true;
    break;
  case AttentionKernels::Fused:
  case AttentionKernels::FusedCudnn:
  case AttentionKernels::Unfused:
    spec.fusesEpilogues = false;
    spec.attention = isHalf || software.attention == AttentionKernels::Unfused
                         ? AttentionForm::whole
                         : AttentionForm::expanded;
    break;
  }
  return spec;
}

LoweringSpec ProgramEvaluator::specFor(const cost::Strategy &strategy) const {
  return pricedSpec(specOf(strategy, totalsOfProgram.sums.globalBatch, common),
                    cluster.software, totalsOfProgram.sums.computeType);
}

/// Evaluates the order of mesh axes in `spec`. If `spec` sets no order,
/// evaluates the default order and the order with the fastest traffic, and
/// returns the faster evaluation.
cost::Evaluation ProgramEvaluator::placed(
    LoweringSpec spec,
    llvm::function_ref<cost::Evaluation(const LoweringSpec &)> evaluateOne) {
  cost::Evaluation usual = evaluateOne(spec);
  usual.decisions.order = rankOrder(spec);
  usual.decisions.isReordered = !spec.placement.axes.empty();
  usual.decisions.linkSpeed = spec.linkSpeed;
  std::vector<cost::Traffic> traffic = std::move(usual.traffic);
  usual.traffic.clear();
  if (usual.decisions.isReordered || !usual.rejected.empty())
    return usual;
  for (const cost::RankAxis &axis :
       cost::cheapestOrder(withLinkSpeed(cluster, spec.linkSpeed),
                           usual.decisions.order, traffic))
    spec.placement.axes.push_back(axis.name);
  cost::RankOrder order = rankOrder(spec);
  if (llvm::equal(order, usual.decisions.order,
                  [](const cost::RankAxis &a, const cost::RankAxis &b) {
                    return a.name == b.name;
                  }))
    return usual;
  cost::Evaluation other = evaluateOne(spec);
  other.decisions.order = order;
  other.decisions.isReordered = true;
  other.decisions.linkSpeed = spec.linkSpeed;
  other.traffic.clear();
  // Faster traffic may not make the step faster: computation may hide it.
  bool isFaster =
      other.rejected.empty() && other.stepSeconds < usual.stepSeconds;
  return isFaster ? other : usual;
}

/// Returns true if the program is lowered for several link speeds, which takes
/// twice as long. In tests with few layers, GPT-2, BERT, DiT and ResNet became
/// no faster, and a MoE model became 4 % faster.
bool ProgramEvaluator::isSmall() const {
  constexpr size_t kFewOps = 128;
  return !folder && cluster.numDevices() <= cost::kFewDevices &&
         findProgram(program).getBody().front().getOperations().size() <=
             kFewOps;
}

/// Returns the best evaluation over the link speeds of LinkSpeeds.h. A pipeline
/// that cannot be built at the highest speed, which divides the work most
/// evenly, is rejected: a slower one may only succeed with all work in one
/// stage.
cost::Evaluation
ProgramEvaluator::evaluateAtSpeeds(const LoweringSpec &requested) {
  cost::Feasibility feasibility(cluster);
  // Evaluations that fit the memory come first, then faster ones.
  auto rank = [&](const cost::Evaluation &evaluation) {
    return std::tuple(!evaluation.rejected.empty(),
                      !feasibility.fits(evaluation), evaluation.stepSeconds);
  };
  std::optional<cost::Evaluation> best, unbuilt; // `unbuilt`: last rejection
  for (double speed : linkSpeedsToTry(program, cluster, requested)) {
    LoweringSpec spec = requested;
    spec.linkSpeed = speed;
    cost::Evaluation found = evaluateOne(spec);
    unbuilt.reset();
    if (spec.stages() > 1 && !found.rejected.empty())
      unbuilt = found;
    if (!best || rank(found) < rank(*best))
      best = std::move(found);
  }
  return unbuilt ? std::move(*unbuilt) : std::move(*best);
}

cost::Evaluation ProgramEvaluator::evaluate(const cost::Strategy &strategy) {
  LoweringSpec spec = specFor(strategy);
  cost::Evaluation evaluation =
      isSmall() ? evaluateAtSpeeds(spec) : evaluateOne(spec);
  if (strategy.batchShares.isAuto)
    shareBatch(evaluation, cluster, spec);
  evaluation.flops = totalsOfProgram.sums.flopsPerStep;
  return evaluation;
}

cost::Evaluation ProgramEvaluator::evaluateOne(const LoweringSpec &requested) {
  return placed(requested, [&](const LoweringSpec &spec) {
    // On heterogeneous devices, stages with the same ops take different times.
    bool hasDifferentStages =
        spec.stages() > 1 &&
        (cost::isHeterogeneous(cluster) || !spec.batchShares.ratios.empty());
    std::optional<cost::Evaluation> folded;
    if (folder && !hasDifferentStages)
      folded = folder->evaluate(spec);
    if (!folded)
      return evaluateWhole(spec, /*describes=*/false);
    if (cost::isHeterogeneous(cluster))
      folded->memoryLimitBytes =
          cost::devicesOfStage(cluster, rankOrder(spec), 0, cost::DType::F32)
              .usableBytes;
    return std::move(*folded);
  });
}

std::vector<cost::Evaluation>
ProgramEvaluator::evaluateMany(const std::vector<cost::Strategy> &strategies) {
  std::vector<cost::Evaluation> evaluations(strategies.size());
  if (folder)
    folder->beginRound();
  parallelFor(strategies.size(), 1,
              [&](size_t i) { evaluations[i] = evaluate(strategies[i]); });
  return evaluations;
}

/// Returns "" for strategies with another axis order or uneven batch shares,
/// because segments are measured for the default axis order and even shares.
std::string ProgramEvaluator::blockOf(const cost::Strategy &strategy) {
  if (!folder || cost::isHeterogeneous(cluster))
    return "";
  LoweringSpec spec = specFor(strategy);
  return spec.placement.axes.empty() && spec.batchShares.ratios.empty()
             ? folder->blockOf(spec, totalsOfProgram.sums.globalBatch)
             : "";
}

std::vector<std::vector<std::optional<cost::Composition>>>
ProgramEvaluator::compose(
    const std::vector<std::vector<cost::Strategy>> &blocks, double limit) {
  if (!folder)
    return Evaluator::compose(blocks, limit);
  folder->beginRound();
  std::vector<std::vector<std::optional<cost::Composition>>> result(
      blocks.size());
  const cost::ModelTotals &sums = totalsOfProgram.sums;
  parallelFor(blocks.size(), 1, [&](size_t i) {
    std::vector<LoweringSpec> spec;
    for (const cost::Strategy &strategy : blocks[i])
      spec.push_back(specFor(strategy));
    result[i] = folder->compose(spec, sums.globalBatch, limit);
    for (std::optional<cost::Composition> &composition : result[i])
      if (composition)
        composition->evaluation.flops = sums.flopsPerStep;
  });
  return result;
}

void ProgramEvaluator::prepareToDescribe() {
  if (!family)
    return;
  FirstError error(*family->context()); // describe() reports the error.
  (void)family->whole();
}

cost::Evaluation ProgramEvaluator::evaluateWhole(const cost::Strategy &strategy,
                                                 bool describes) {
  LoweringSpec requested = specFor(strategy);
  if (isSmall())
    requested.linkSpeed = evaluateAtSpeeds(requested).decisions.linkSpeed;
  cost::Evaluation evaluation =
      placed(requested, [&](const LoweringSpec &spec) {
        return evaluateWhole(spec, describes);
      });
  if (strategy.batchShares.isAuto)
    shareBatch(evaluation, cluster, requested);
  evaluation.flops = totalsOfProgram.sums.flopsPerStep;
  return evaluation;
}

/// On a heterogeneous cluster, stages that need too much memory get less work,
/// and the program is evaluated again.
cost::Evaluation ProgramEvaluator::evaluateWhole(const LoweringSpec &requested,
                                                 bool describes) {
  cost::Evaluation evaluation = evaluateCut(requested, describes);
  if (!cost::isHeterogeneous(cluster) || requested.pp == 1)
    return evaluation;
  constexpr int kTries = 3;
  LoweringSpec spec = requested;
  for (int i = 0; i < kTries && evaluation.rejected.empty(); ++i) {
    auto room =
        roomOfStages(evaluation, cluster, totalsOfProgram.sums.computeType);
    if (!room)
      break;
    spec.stageRoom = std::move(*room);
    evaluation = evaluateCut(spec, describes);
    evaluation.decisions.stageRoom = spec.stageRoom;
  }
  return evaluation;
}

static std::vector<cost::MemoryBreakdown>
memoryOfStages(ArrayRef<func::FuncOp> steps, const cost::Cluster &cluster,
               const LoweringSpec &spec) {
  MemoryOwner owner = memoryOwner(cluster, spec);
  std::vector<cost::MemoryBreakdown> memory(steps.size());
  parallelFor(steps.size(), 1, [&](size_t i) {
    memory[i] =
        cost::heldMemory(cluster, estimateMemory(steps[i], owner).categories);
  });
  return memory;
}

static void addStageMemory(cost::Evaluation &evaluation, int64_t i,
                           func::FuncOp step,
                           const cost::MemoryBreakdown &memory,
                           const cost::Cluster &cluster,
                           const LoweringSpec &spec, int64_t &fullest) {
  double limit = 0;
  if (cost::isHeterogeneous(cluster)) {
    cost::StageDevices devices =
        cost::devicesOfStage(cluster, rankOrder(spec), i, cost::DType::F32);
    limit = devices.usableBytes;
    if (!evaluation.stages.empty()) {
      evaluation.stages[i].device = cluster.groups[devices.group].device.name;
      evaluation.stages[i].memoryLimitBytes = limit;
    }
  }
  // On heterogeneous devices, the stages are compared by the fraction of their
  // memory that they use.
  double full = memory.total(), most = evaluation.memory.total();
  if (limit > 0 && i > 0) {
    full /= limit;
    most /= evaluation.memoryLimitBytes;
  }
  if (i == 0 || full > most) {
    evaluation.memory = memory;
    evaluation.memoryLimitBytes = limit;
    fullest = i;
  }
  OffloadedBytes away = offloadedBytes(step);
  evaluation.hostBytes = std::max<double>(evaluation.hostBytes, away.host);
  evaluation.diskBytes = std::max<double>(evaluation.diskBytes, away.disk);
  if (!evaluation.stages.empty())
    evaluation.stages[i].memoryBytes = memory.total();
}

cost::Evaluation ProgramEvaluator::evaluateCut(const LoweringSpec &spec,
                                               bool describes) {
  cost::Evaluation evaluation;
  FailureOr<ModuleOp> whole = program;
  if (family)
    whole = family->whole();
  if (failed(whole)) {
    evaluation.rejected = "cannot be compiled";
    return evaluation;
  }
  FirstError error(*whole->getContext());
  StepDescription description;
  auto observe = [&](StringRef phase, ModuleOp lowered) {
    description.observe(phase, lowered);
  };
  auto module = describes
                    ? lowerForStrategy(*whole, cluster, spec, observe,
                                       /*layouts=*/nullptr, /*verifies=*/false)
                    : lowering.lower(*whole, spec);
  if (failed(module)) {
    evaluation.rejected = error.text();
    return evaluation;
  }
  SmallVector<func::FuncOp> steps = findSteps(**module);
  Expected<StepTime> estimate =
      estimateTime(steps, cluster, describes ? &description.record : nullptr);
  if (!estimate) {
    evaluation.rejected = estimate.message();
    return evaluation;
  }
  setTime(evaluation, *estimate);
  int64_t fullest = 0;
  std::vector<cost::MemoryBreakdown> memory =
      memoryOfStages(steps, cluster, spec);
  for (auto [i, step] : llvm::enumerate(steps))
    addStageMemory(evaluation, i, step, memory[i], cluster, spec, fullest);
  if (describes)
    evaluation.detail = std::make_shared<cost::StepDetail>(
        description.finish(steps, fullest, cluster, spec));
  return evaluation;
}
