//===- Lower.cpp - From a training step to one rank's program -------------===//
#include "passes/lower/Lower.h"

#include "passes/graph/Phases.h"
#include "passes/local/Passes.h"
#include "passes/lower/Levels.h"
#include "passes/lower/LinkSpeeds.h"
#include "passes/lower/Passes.h"
#include "passes/lower/SpecOptions.h"
#include "passes/lower/UnevenShares.h"
#include "passes/shard/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace dpc;

LoweringSpec dpc::specOf(const cost::Strategy &strategy, int64_t globalBatch,
                         const LoweringSpec &common) {
  LoweringSpec spec = common;
  static_cast<cost::Strategy &>(spec) = strategy;
  spec.microBatch = 0;
  spec.numMicroBatches = strategy.microBatches(globalBatch);
  return spec;
}

LoweringSpec dpc::specOf(const cost::Strategy &strategy,
                         const cost::Decisions &decisions, int64_t globalBatch,
                         const LoweringSpec &common) {
  LoweringSpec spec =
      specOf(cost::placedStrategy(strategy, decisions), globalBatch, common);
  spec.stageRoom = decisions.stageRoom;
  spec.linkSpeed = decisions.linkSpeed;
  return spec;
}

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

/// Returns a compute capability, times 10, whose kernels of attention all GPUs
/// of `cluster` have: the lowest of theirs. GPUs of several generations share
/// only the kernels of the first one with fused attention in cuDNN. A device
/// that states no capability counts as one of these.
static int64_t capabilityOf(const cost::Cluster &cluster) {
  constexpr int64_t kFirst = 80, kGeneration = 10;
  SmallVector<int64_t> all;
  for (const cost::NodeGroup &group : cluster.groups) {
    int64_t stated = group.device.computeCapability;
    all.push_back(stated > 0 ? stated : kFirst);
  }
  auto [lowest, highest] = std::minmax_element(all.begin(), all.end());
  return *lowest / kGeneration == *highest / kGeneration
             ? *lowest
             : std::min(kFirst, *lowest);
}

static std::unique_ptr<Pass> attentionPass(const cost::Cluster &cluster,
                                           const LoweringSpec &spec) {
  DpcExpandAttentionOptions options;
  options.require = spec.attentionMustFuse;
  switch (spec.attention) {
  case AttentionForm::automatic:
  case AttentionForm::expanded:
    return createDpcExpandAttention();
  case AttentionForm::fused:
    options.keep = "cudnn";
    options.capability = capabilityOf(cluster);
    return createDpcExpandAttention(options);
  case AttentionForm::loops:
    options.keep = "loops";
    return createDpcExpandAttention(options);
  case AttentionForm::whole:
    options.keep = "any";
    return createDpcExpandAttention(options);
  }
  llvm_unreachable("all forms are handled");
}

void dpc::addPartitionPhase(OpPassManager &pm, const cost::Cluster &cluster,
                            const LoweringSpec &spec) {
  // First, because collectives and masks follow from the shardings in types.
  DpcPartitionOptions partition;
  partition.dropSharded = true;
  pm.addPass(createDpcPartition(partition));
  // After the partition, so that messages between stages are shards.
  if (spec.pp > 1) {
    DpcSplitStagesOptions split;
    auto shares = sharesOf(spec);
    split.schedule = std::string(stringify(spec.schedule));
    split.chunks = spec.vpp;
    split.microBatches =
        shares && !shares->empty() ? *llvm::max_element(*shares) : 0;
    pm.addPass(createDpcSplitStages(split));
  }
  // After the partition: fused attention depends on the shapes of one rank.
  pm.addPass(attentionPass(cluster, spec));
  // Folds the constants and slices that the passes above leave. A function of
  // one block has no regions to simplify.
  GreedyRewriteConfig config;
  config.setUseTopDownTraversal(true); // the default of the pass
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
  // Several readers of a value may slice and gather it in the same way.
  pm.addPass(createCSEPass());
  // After the values of each reader are merged, and before recomputation, which
  // takes tiles as a whole.
  if (spec.tilesExperts) {
    ExchangeCosts costs = exchangeCosts(cluster, spec);
    DpcTileExpertsOptions tiles;
    tiles.gatherStart = costs.gather.start;
    tiles.gatherByte = costs.gather.perByte;
    tiles.exchangeStart = costs.exchange.start;
    tiles.exchangeByte = costs.exchange.perByte;
    pm.addPass(createDpcTileExperts(tiles));
  }
}

void dpc::addRecomputePhase(OpPassManager &pm, const cost::Cluster &cluster,
                            const LoweringSpec &spec) {
  // Before the buckets, because recomputation decides about each collective.
  DpcRecomputeOptions recompute;
  recompute.mode = std::string(stringify(spec.recompute));
  recompute.omittedLayers = spec.omittedLayers;
  recompute.alive = spec.alive;
  recompute.blockLayers = spec.blockLayers;
  cost::Cluster linked = withLinkSpeed(cluster, spec.linkSpeed);
  recompute.gather = gatherCost(linked, spec, isTensorAxis);
  recompute.gatherTokens = gatherCost(
      linked, spec, [](StringRef axis) { return axis == kExpertAxis; });
  recompute.layers = spec.checkpoints != cost::Checkpoints::Planned;
  recompute.whole = spec.checkpoints == cost::Checkpoints::WholeLayers;
  pm.addPass(createDpcRecompute(recompute));
  // After recomputation: buckets include recomputed gathers and fix the order.
  DpcBucketCollectivesOptions buckets;
  buckets.bucketBytes = spec.bucketBytes;
  buckets.depth = spec.depth;
  pm.addPass(createDpcBucketCollectives(buckets));
}

void dpc::addKernelPhase(OpPassManager &pm, const LoweringSpec &spec) {
  // After the buckets, so that a bucket is encoded only once.
  pm.addPass(createDpcCompressCollectives());
  // After placeRanks, which marks the hierarchical all_reduces.
  pm.addPass(createDpcExpandHierarchy());
  // After all passes that add elementwise ops.
  pm.addPass(createDpcFormKernels());
  // After the kernels are formed, because copies surround kernels.
  pm.addPass(createDpcOffload());
  // Last, because an epilogue replaces a kernel.
  if (spec.fusesEpilogues)
    pm.addPass(createDpcFuseEpilogues());
}

static LogicalResult run(ModuleOp module, PassManager &pm, bool verifies) {
  // Many programs are lowered only for estimates, so these are not verified.
  pm.enableVerifier(verifies);
  return pm.run(module);
}

FailureOr<OwningOpRef<ModuleOp>>
dpc::lowerToShared(ModuleOp program, const cost::Cluster &cluster,
                   const LoweringSpec &spec, PhaseObserver observer,
                   LayoutModel *layouts, bool verifies) {
  if (auto shares = sharesOf(spec); !shares)
    return program.emitError("--strategy: " + shares.message());
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(program->clone()));
  if (failed(shardProgram(*module, cluster, spec, layouts)))
    return failure();
  if (verifies) {
    PassManager check(module->getContext());
    check.addPass(createDpcVerifySharded());
    if (failed(verify(*module)) || failed(check.run(*module)))
      return failure();
  }
  if (observer)
    observer("sharded", *module);
  PassManager pm(module->getContext());
  addPartitionPhase(pm, cluster, spec);
  if (failed(run(*module, pm, verifies)))
    return failure();
  return module;
}

LogicalResult dpc::lowerRest(ModuleOp module, const cost::Cluster &cluster,
                             const LoweringSpec &spec, bool verifies) {
  PassManager recompute(module.getContext());
  addRecomputePhase(recompute, cluster, spec);
  if (failed(run(module, recompute, verifies)) ||
      failed(placeRanks(module, cluster, spec)))
    return failure();
  PassManager kernels(module.getContext());
  addKernelPhase(kernels, spec);
  if (verifies)
    kernels.addPass(createDpcVerifyLocal());
  return run(module, kernels, verifies);
}

FailureOr<OwningOpRef<ModuleOp>>
dpc::lowerForStrategy(ModuleOp program, const cost::Cluster &cluster,
                      const LoweringSpec &spec, PhaseObserver observer,
                      LayoutModel *layouts, bool verifies) {
  verifies = verifies && observer;
  auto module =
      lowerToShared(program, cluster, spec, observer, layouts, verifies);
  if (failed(module) || failed(lowerRest(**module, cluster, spec, verifies)))
    return failure();
  if (observer)
    observer("local", **module);
  return module;
}

Expected<SpecOnCluster> dpc::readSpec(StringRef strategy, int64_t microBatches,
                                      StringRef cluster) {
  Expected<cost::Strategy> read = cost::parseCompleteStrategy(strategy.str());
  if (!read)
    return read.status();
  if (microBatches < 1)
    return Error{"micro-batches=" + std::to_string(microBatches) +
                 "; expected at least 1"};
  LoweringSpec spec = specOf(*read, /*globalBatch=*/1, {});
  spec.numMicroBatches = microBatches;
  if (auto shares = sharesOf(spec); !shares)
    return shares.status();
  Expected<cost::Cluster> loaded = cost::loadCluster(
      cluster.empty() ? "local:" + std::to_string(numRanks(spec))
                      : cluster.str());
  if (!loaded)
    return loaded.status();
  return SpecOnCluster{std::move(spec), std::move(*loaded)};
}

namespace {

struct LowerOptions : PassPipelineOptions<LowerOptions> {
  Option<std::string> strategy{
      *this, "strategy",
      llvm::cl::desc(
          "keys and values as in --strategy; missing keys are neutral"),
      llvm::cl::init("")};
  Option<int64_t> microBatches{*this, "micro-batches",
                               llvm::cl::desc("micro-batches per step"),
                               llvm::cl::init(1)};
  Option<std::string> cluster{
      *this, "cluster",
      llvm::cl::desc("cluster.json or local:N; empty = local:N with the ranks "
                     "of the strategy"),
      llvm::cl::init("")};
  Option<bool> gpu{*this, "gpu",
                   llvm::cl::desc("for GPUs: fused attention and epilogues"),
                   llvm::cl::init(false)};
};

} // namespace

/// Adds all phases for `spec`. The passes read `cluster` from the file `name`.
static void addLowering(OpPassManager &pm, const LoweringSpec &spec,
                        const cost::Cluster &cluster, const std::string &name) {
  DpcShardOptions shard;
  shard.strategy = cost::stringifyStrategy(spec);
  shard.microBatches = spec.numMicroBatches;
  shard.compressGradients = spec.compressGradients;
  shard.compressWeights = spec.compressWeights;
  shard.linkSpeed = spec.linkSpeed;
  shard.stageRoom.assign(spec.stageRoom.begin(), spec.stageRoom.end());
  shard.cluster = name;
  pm.addPass(createDpcShard(shard));
  pm.addPass(createDpcVerifySharded());
  addPartitionPhase(pm, cluster, spec);
  addRecomputePhase(pm, cluster, spec);
  DpcPlaceRanksOptions place;
  place.strategy = shard.strategy;
  place.microBatches = shard.microBatches;
  place.cluster = name;
  pm.addPass(createDpcPlaceRanks(place));
  addKernelPhase(pm, spec);
  pm.addPass(createDpcVerifyLocal());
}

/// If an option is invalid, adds only dpc-shard, which reports the error.
static void addLowering(OpPassManager &pm, const LowerOptions &options) {
  Expected<SpecOnCluster> read =
      readSpec(options.strategy.getValue(), options.microBatches,
               options.cluster.getValue());
  if (!read) {
    DpcShardOptions shard;
    shard.strategy = options.strategy;
    shard.microBatches = options.microBatches;
    shard.cluster = options.cluster;
    pm.addPass(createDpcShard(shard));
    return;
  }
  read->spec.fusesEpilogues = options.gpu;
  if (options.gpu)
    read->spec.attention = AttentionForm::fused;
  addLowering(pm, read->spec, read->cluster, options.cluster);
}

std::string dpc::pipelineText(const LoweringSpec &spec,
                              const cost::Cluster &cluster,
                              const std::string &name) {
  return textOf(
      [&](OpPassManager &pm) { addLowering(pm, spec, cluster, name); });
}

void dpc::registerLoweringPasses() {
  registerDpcLowerPasses();
  PassPipelineRegistration<LowerOptions>(
      "dpc-lower",
      "Lowers a program for one strategy: runs all phases from "
      "dpc-shard to kernels and verifies each altitude.",
      [](OpPassManager &pm, const LowerOptions &options) {
        addLowering(pm, options);
      });
}
