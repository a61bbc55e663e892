//===- ShrunkVerify.cpp - Verification of large models --------------------===//
#include "tools/driver/ShrunkVerify.h"

#include "passes/graph/Passes.h"
#include "passes/shard/Passes.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"
#include "tools/driver/SmallModel.h"

#include <chrono>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

static constexpr int64_t kMostRanks = 16;
static constexpr int64_t kLeastSize = 8;

/// Even, at least kLeastSize, and a multiple of the product of all axes.
static int64_t sizeFor(const cost::Strategy &strategy) {
  int64_t ways = strategy.dp * strategy.cp * strategy.tp;
  return llvm::alignTo(kLeastSize, ways % 2 == 0 ? ways : 2 * ways);
}

static ShrinkOptions shrinkOptions(const cost::Strategy &full,
                                   const cost::ShrunkStrategy &choice) {
  ShrinkOptions options;
  const cost::Strategy &small = choice.strategy;
  options.layers = std::max<int64_t>(2, small.pp * small.vpp);
  options.size = sizeFor(small);
  options.batch = choice.globalBatch;
  options.oldParts = full.tp > 1 ? full.tp : 2;
  options.newParts = full.tp > 1 ? small.tp : 2;
  return options;
}

static bool computesNarrow(func::FuncOp func, const CompileOptions &options) {
  return options.precision != "fp32" ||
         llvm::any_of(func.getArgumentTypes(), [](Type type) {
           Type element = cast<RankedTensorType>(type).getElementType();
           return element.isBF16() || element.isF16();
         });
}

static LogicalResult finish(ModuleOp module, const CompileOptions &options) {
  func::FuncOp forward = findProgram(module);
  bool trains = false;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    trains |= !options.infer && forward.getResultAttr(i, attr::kLoss);
  return runPasses(module, [&](OpPassManager &pm) {
    pm.addNestedPass<func::FuncOp>(createDpcSimplify());
    graphPasses(options, trains)(pm);
  });
}

static FailureOr<OwningOpRef<ModuleOp>>
shrinkModule(ModuleOp fused, const CompileOptions &options,
             const ShrinkOptions &shrink, ShrinkSummary &summary) {
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(fused->clone()));
  auto done = shrinkProgram(findProgram(*module), shrink);
  if (failed(done) || failed(finish(*module, options)))
    return failure();
  summary = *done;
  return std::move(module);
}

FailureOr<ShrunkProgram> shrinkForStrategy(ModuleOp fused,
                                           const CompileOptions &options,
                                           const cost::Strategy &strategy,
                                           int64_t globalBatch) {
  ShrunkProgram result;
  result.choice = cost::shrinkStrategy(strategy, globalBatch, kMostRanks);
  result.inFp32 = computesNarrow(findProgram(fused), options);
  ShrinkOptions shrink = shrinkOptions(strategy, result.choice);
  auto program = shrinkModule(fused, options, shrink, result.summary);
  if (failed(program))
    return failure();
  result.program = std::move(*program);
  // Reduces the depth only.
  shrink.size = std::numeric_limits<int64_t>::max();
  shrink.batch = 0;
  ShrinkSummary depth;
  auto wide = shrinkModule(fused, options, shrink, depth);
  if (failed(wide))
    return failure();
  result.wide = std::move(*wide);
  result.wideSpec = specOf(strategy, globalBatch, commonSpec(options));
  return std::move(result);
}

/// Compares twice, and fails only if the plans differ for both sets of weights.
/// Near a singular point (a batch norm over equal values), rounding may exceed
/// any tolerance, but a wrong plan differs for all weights.
static Verdict compareTwice(const PlanInFolder &plan,
                            const PlanInFolder &reference) {
  Verdict verdict;
  for (uint64_t seed : {1, 2}) {
    verdict = verifyAgainstOneDevice(plan, reference, "random:1",
                                     weightsFor(reference.plan, seed));
    if (verdict.ok())
      break;
  }
  return verdict;
}

Verdict verifyShrunk(const ShrunkProgram &shrunk, const PlanSettings &settings,
                     const cost::Cluster &cluster, const fs::path &dir,
                     bool &keepsLayouts, PhaseObserver observer) {
  LoweringSpec spec = withWholeGradients(specOf(shrunk.choice.strategy,
                                                shrunk.choice.globalBatch,
                                                commonSpec(settings.options)));
  Verdict verdict;
  verdict.cannotBeChecked = true;
  fs::path ranksDir = dir / "shrunk", oneDir = dir / "shrunk-one-device";
  std::error_code code;
  fs::create_directories(ranksDir, code);
  fs::create_directories(oneDir, code);
  LayoutModel layouts{*shrunk.wide, cluster, shrunk.wideSpec};
  std::optional<rt::Plan> plan = buildForRanks(
      settings, *shrunk.program, cluster, spec, ranksDir, observer, &layouts);
  keepsLayouts = layouts.isUsed;
  std::optional<rt::Plan> one;
  if (plan)
    one = buildForOneDevice(settings, *shrunk.program, spec, oneDir);
  if (!plan || !one)
    verdict.why = "the shrunk model cannot be compiled";
  else
    verdict = compareTwice({*plan, ranksDir.string(), compressionOf(spec)},
                           {*one, oneDir.string()});
  fs::remove_all(ranksDir, code);
  fs::remove_all(oneDir, code);
  return verdict;
}

void setVerdict(cost::Verification &verification, const Verdict &verdict) {
  verification.outputs = verdict.outputs;
  verification.tensors = verdict.tensors;
  verification.outputError = verdict.outputError;
  verification.toleranceShare = verdict.toleranceShare;
  verification.isSensitive = verdict.isSensitive;
}

static cost::Verification describe(const ShrunkProgram &shrunk,
                                   const Verdict &verdict, bool keepsLayouts) {
  cost::Verification verification;
  verification.scope = cost::Verification::Scope::shrunk;
  verification.strategy = shrunk.choice.strategy;
  verification.ranks = shrunk.choice.strategy.ranks();
  verification.globalBatch = shrunk.choice.globalBatch;
  verification.inFp32 = shrunk.inFp32;
  verification.keepsLayouts = keepsLayouts;
  for (const ShrinkSummary::Repeat &repeat : shrunk.summary.repeats)
    verification.layers.push_back({repeat.ops, repeat.before, repeat.after});
  verification.sizes = shrunk.summary.sizes;
  setVerdict(verification, verdict);
  return verification;
}

cost::Verification
verifyInShrunkForm(ModuleOp fused, const PlanSettings &settings,
                   const cost::Cluster &cluster, const cost::Strategy &strategy,
                   double linkSpeed, int64_t globalBatch, const fs::path &dir,
                   std::string &mismatch) {
  auto begin = std::chrono::steady_clock::now();
  SilencedErrors error(fused.getContext());
  cost::Verification verification;
  auto shrunk =
      shrinkForStrategy(fused, settings.options, strategy, globalBatch);
  if (failed(shrunk)) {
    verification.why = "the model cannot be shrunk: " + error.text();
    return verification;
  }
  shrunk->wideSpec.linkSpeed = linkSpeed;
  bool keepsLayouts = false;
  Verdict verdict = verifyShrunk(*shrunk, settings, cluster, dir, keepsLayouts);
  if (!verdict.ok() && verdict.cannotBeChecked)
    verification.why =
        verdict.why + (error.text().empty() ? "" : ": " + error.text());
  else if (!verdict.ok())
    mismatch = verdict.why;
  else
    verification = describe(*shrunk, verdict, keepsLayouts);
  verification.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return verification;
}

} // namespace dpc
