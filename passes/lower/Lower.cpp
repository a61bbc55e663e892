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

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

static std::unique_ptr<Pass> attentionPass(const LoweringSpec &spec) {
  DpcExpandAttentionOptions options;
  options.require = spec.attentionMustFuse;
  switch (spec.attention) {
  case AttentionForm::automatic:
  case AttentionForm::expanded:
    return createDpcExpandAttention();
  case AttentionForm::fused:
    options.keep = "cudnn";
    return createDpcExpandAttention(options);
  case AttentionForm::loops:
    options.keep = "loops";
    return createDpcExpandAttention(options);
  case AttentionForm::whole:
    return nullptr;
  }
  llvm_unreachable("all forms are handled");
}

void dpc::addPartitionPhase(OpPassManager &pm, const LoweringSpec &spec) {
  // Types still hold the shardings: each reshard becomes collectives, and each
  // padded shard gets its mask.
  DpcPartitionOptions partition;
  partition.dropSharded = true;
  pm.addPass(createDpcPartition(partition));
  // Stages are split on local types: a message between stages is one rank's
  // shard.
  if (spec.pp > 1) {
    DpcSplitStagesOptions split;
    auto shares = sharesOf(spec);
    split.schedule = std::string(stringify(spec.schedule));
    split.chunks = spec.vpp;
    split.microBatches =
        shares && !shares->empty() ? *llvm::max_element(*shares) : 0;
    pm.addPass(createDpcSplitStages(split));
  }
  // A fused attention kernel accepts or refuses shapes of one rank, which are
  // known only after partitioning.
  if (std::unique_ptr<Pass> attention = attentionPass(spec))
    pm.addPass(std::move(attention));
  // Partitioning and expansion leave constants and slices that fold. Functions
  // of one block have no regions to simplify.
  GreedyRewriteConfig config;
  config.setUseTopDownTraversal(true); // the pass's own default
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
  // Several uses of a value slice and gather it in the same way.
  pm.addPass(createCSEPass());
}

void dpc::addRecomputePhase(OpPassManager &pm, const cost::Cluster &cluster,
                            const LoweringSpec &spec) {
  // Recomputation decides about each collective, so it precedes buckets.
  DpcRecomputeOptions recompute;
  recompute.mode = std::string(stringify(spec.recompute));
  recompute.depth = spec.depth;
  recompute.alive = spec.alive;
  recompute.gather = gatherCost(withLinkSpeed(cluster, spec.linkSpeed), spec);
  recompute.layers = spec.checkpoints != cost::Checkpoints::Planned;
  recompute.whole = spec.checkpoints == cost::Checkpoints::WholeLayers;
  pm.addPass(createDpcRecompute(recompute));
  // Buckets also hold recomputed gathers, and they fix the order in which
  // collectives are issued.
  DpcBucketCollectivesOptions buckets;
  buckets.bucketBytes = spec.bucketBytes;
  buckets.depth = spec.depth;
  pm.addPass(createDpcBucketCollectives(buckets));
}

void dpc::addKernelPhase(OpPassManager &pm, const LoweringSpec &spec) {
  // A compressed bucket is encoded once, so buckets come first.
  pm.addPass(createDpcCompressCollectives());
  // Placement has marked all_reduces that become hierarchical.
  pm.addPass(createDpcExpandHierarchy());
  // No later pass adds elementwise ops that a kernel could fuse.
  pm.addPass(createDpcFormKernels());
  // Copies between memory spaces surround the kernels that use them.
  pm.addPass(createDpcOffload());
  // An epilogue replaces the kernel that follows a GEMM.
  if (spec.fusesEpilogues)
    pm.addPass(createDpcFuseEpilogues());
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

static LogicalResult run(ModuleOp module, PassManager &pm, bool verifies) {
  // Programs that are lowered only for cost estimates skip the verifier,
  // because there are many of them.
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
  addPartitionPhase(pm, spec);
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

//===----------------------------------------------------------------------===//
// The command line
//===----------------------------------------------------------------------===//

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
      llvm::cl::desc("in the form of --strategy; other keys are neutral"),
      llvm::cl::init("")};
  Option<int64_t> microBatches{*this, "micro-batches",
                               llvm::cl::desc("micro-batches per step"),
                               llvm::cl::init(1)};
  Option<std::string> cluster{
      *this, "cluster",
      llvm::cl::desc("cluster.json or local:N; local:N for the strategy's "
                     "ranks when empty"),
      llvm::cl::init("")};
  Option<bool> gpu{*this, "gpu",
                   llvm::cl::desc("for GPUs: fused attention and epilogues"),
                   llvm::cl::init(false)};
};

} // namespace

/// Adds all phases for `spec` on `cluster`, which the passes read from `name`.
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
  addPartitionPhase(pm, spec);
  addRecomputePhase(pm, cluster, spec);
  DpcPlaceRanksOptions place;
  place.strategy = shard.strategy;
  place.microBatches = shard.microBatches;
  place.cluster = name;
  pm.addPass(createDpcPlaceRanks(place));
  addKernelPhase(pm, spec);
  pm.addPass(createDpcVerifyLocal());
}

/// Adds all phases for the options. dpc-shard reports errors in them.
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
      "Lowers a program for one strategy: all phases from "
      "dpc-shard to kernels, verified at each altitude's end.",
      [](OpPassManager &pm, const LowerOptions &options) {
        addLowering(pm, options);
      });
}
