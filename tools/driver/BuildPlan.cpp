//===- BuildPlan.cpp - From a program and a strategy to a plan ------------===//
#include "tools/driver/BuildPlan.h"

#include "passes/shard/LoweringSpec.h"

#include "codegen/Codegen.h"
#include "passes/graph/Passes.h"
#include "passes/shard/Passes.h"
#include "runtime/io/SourceFiles.h"
#include "tools/driver/Inputs.h"

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

codegen::CodegenOptions codegenOptions(const CompileOptions &options,
                                       bool trains, bool onCpu) {
  codegen::CodegenOptions result;
  result.model = fs::path(options.model).stem().string();
  result.trains = trains;
  result.targetCpu = options.targetCpu;
  if (!onCpu)
    result.targetGpu = options.targetGpu;
  rt::LrSchedule &schedule = result.lrSchedule;
  schedule.lr = options.lr;
  schedule.warmup = options.warmup;
  schedule.total = options.totalSteps;
  schedule.min = options.minLr;
  schedule.kind = options.lrSchedule == "cosine"   ? rt::LrKind::Cosine
                  : options.lrSchedule == "linear" ? rt::LrKind::Linear
                                                   : rt::LrKind::Constant;
  return result;
}

static AttentionForm attentionForm(const CompileOptions &options) {
  bool onGpus = !options.targetGpu.empty();
  if (options.attention == "expanded")
    return AttentionForm::expanded;
  if (onGpus)
    return AttentionForm::fused;
  return options.attention == "fused" ? AttentionForm::loops
                                      : AttentionForm::automatic;
}

/// Assigns a process to each rank. `places` has the place of each rank's device
/// in cluster.json; processes are numbered in the order of the used places.
static void placeRanks(rt::Plan &plan, const std::vector<int64_t> &places) {
  if (places.empty())
    return;
  std::vector<int64_t> wanted;
  wanted.reserve(plan.ranks());
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    wanted.push_back(
        places[plan.processes.empty() ? rank : plan.processes[rank]]);
  std::vector<int64_t> used = wanted;
  llvm::sort(used);
  plan.processes.clear();
  plan.processes.reserve(wanted.size());
  for (int64_t place : wanted)
    plan.processes.push_back(llvm::lower_bound(used, place) - used.begin());
}

std::optional<rt::Plan>
buildForRanks(const PlanSettings &settings, ModuleOp program,
              const cost::Cluster &cluster, const LoweringSpec &asked,
              const fs::path &dir, PhaseObserver observer,
              LayoutModel *layouts) {
  const CompileOptions &options = settings.options;
  LoweringSpec spec = asked;
  spec.attention = attentionForm(options);
  spec.attentionMustFuse = options.attention == "fused";
  spec.fusesEpilogues = !options.targetGpu.empty() && !settings.onCpu;
  spec.tilesExperts = options.targetGpu.empty(); // also if GPUs are verified
  // With an observer, lowerForStrategy verifies the program after each phase.
  auto nothing = [](StringRef, ModuleOp) {};
  auto lowered =
      lowerForStrategy(program, cluster, spec,
                       observer ? observer : PhaseObserver(nothing), layouts);
  if (failed(lowered))
    return std::nullopt;
  bool trains = static_cast<bool>(program.lookupSymbol(kTrainStepFunction));
  auto draft = codegen::buildPlan(
      findSteps(**lowered), codegenOptions(options, trains, settings.onCpu));
  if (failed(draft) || failed(codegen::writeKernels(*draft, dir.string())))
    return std::nullopt;
  setInputUses(findProgram(program), draft->plan);
  setUnreadWeights(program, draft->plan);
  setInitialValues(draft->plan, settings.initialValues);
  auto sourceFiles = rt::findSourceFiles(draft->plan, dir.string(),
                                         settings.sourceFiles.vec());
  if (!sourceFiles) {
    program.emitError(sourceFiles.message());
    return std::nullopt;
  }
  draft->plan.sourceFiles = std::move(*sourceFiles);
  placeRanks(draft->plan, settings.places);
  return std::move(draft->plan);
}

LoweringSpec commonSpec(const CompileOptions &options) {
  LoweringSpec common;
  common.bucketBytes = options.bucketMb << 20;
  common.compressGradients = options.compressGradients;
  common.compressWeights = options.compressWeights;
  common.attention = attentionForm(options);
  common.fusesEpilogues = !options.targetGpu.empty();
  common.tilesExperts = options.targetGpu.empty();
  return common;
}

LoweringSpec withWholeGradients(LoweringSpec spec) {
  if (topkShare(spec.compressGradients))
    spec.compressGradients = "topk:1";
  return spec;
}

double compressionOf(const LoweringSpec &spec) {
  // int8 rounds by up to 1/254 of the largest element of a block: once on each
  // rank that adds to a gradient, and once for the sum.
  double rounding = 0;
  if (spec.compressGradients == "int8")
    rounding += static_cast<double>(spec.dp * spec.cp + 1) / 254;
  // Rounded weights change dependent values about as much as bf16.
  if (!spec.compressWeights.empty())
    rounding += 0.1;
  return rounding;
}

std::optional<rt::Plan> buildForOneDevice(const PlanSettings &settings,
                                          ModuleOp program,
                                          const LoweringSpec &spec,
                                          const fs::path &dir) {
  Expected<cost::Cluster> single = cost::makeLocalCluster(1);
  if (!single) {
    program.emitError(single.message());
    return std::nullopt;
  }
  OwningOpRef<ModuleOp> grouped(cast<ModuleOp>(program->clone()));
  if (failed(expandBatchNorms(findProgram(*grouped), spec.dp,
                              spec.numMicroBatches)))
    return std::nullopt;
  return buildForRanks(settings, *grouped, *single, LoweringSpec{}, dir);
}

} // namespace dpc
