//===- ShrunkVerify.cpp - Verification of models too large to run ---------===//
#include "tools/driver/ShrunkVerify.h"

#include "passes/graph/Passes.h"
#include "passes/shard/Passes.h"
#include "runtime/base/Random.h"
#include "tools/driver/Pipelines.h"

#include "mlir/IR/Diagnostics.h"

#include <chrono>
#include <cmath>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

/// Ranks that one process runs.
static constexpr int64_t kMostRanks = 16;
/// Sizes of a shrunk model are not smaller.
static constexpr int64_t kLeastSize = 8;

/// Even, and split evenly by all axes at once.
static int64_t sizeFor(const cost::Strategy &strategy) {
  int64_t ways = strategy.dp * strategy.cp * strategy.tp;
  ways *= ways % 2 == 0 ? 1 : 2;
  return (kLeastSize + ways - 1) / ways * ways;
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

/// Makes `forward` what can be sharded.
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

/// The module with sizes as `shrink` says, made ready to be sharded.
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
  // Only as deep.
  shrink.size = std::numeric_limits<int64_t>::max();
  shrink.batch = 0;
  ShrinkSummary depth;
  auto wide = shrinkModule(fused, options, shrink, depth);
  if (failed(wide))
    return failure();
  result.wide = std::move(*wide);
  result.wideDegrees = specOf(strategy, globalBatch, commonDegrees(options));
  return std::move(result);
}

/// About as many products are summed up for an element of what the weight
/// makes.
static double fanIn(llvm::ArrayRef<int64_t> shape) {
  double elements = 1, largest = 1;
  for (int64_t size : shape) {
    elements *= size;
    largest = std::max<double>(largest, size);
  }
  return elements / largest;
}

/// Weights under which every part of a small model matters: deviations that are
/// right for wide layers would let its branches vanish beside the residual, and
/// with them what is wrong there. Scales, biases and variances are positive.
static NamedTensors weightsFor(const rt::Plan &plan, uint64_t seed) {
  constexpr double kMiddle = 0.5, kSpread = 0.1;
  NamedTensors weights;
  for (const rt::Tensor &tensor : plan.tensors) {
    bool isFolded = tensor.source && tensor.source->file == "constants.bin";
    if (tensor.role == rt::TensorRole::State || isFolded ||
        !rt::isFloat(tensor.dtype))
      continue;
    rt::HostTensor value =
        rt::HostTensor::zeros(tensor.dtype, tensor.globalShape);
    bool isMatrix = tensor.globalShape.size() > 1;
    double deviation =
        isMatrix ? 1 / std::sqrt(fanIn(tensor.globalShape)) : kSpread;
    rt::fillRandom(value, rt::RandomStream(seed, tensor.name), deviation, 0);
    for (int64_t i = 0, e = isMatrix ? 0 : value.elements(); i < e; ++i)
      value.set(i, value.at(i) + kMiddle);
    weights[tensor.name] = std::move(value);
  }
  return weights;
}

/// Rounding may grow beyond any tolerance where a small model happens to be
/// near a singular point (a batch norm over equal values); what is wrong is
/// wrong for all weights. So only what differs twice counts.
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
  LoweringSpec degrees = withWholeGradients(
      specOf(shrunk.choice.strategy, shrunk.choice.globalBatch,
             commonDegrees(settings.options)));
  Verdict verdict;
  verdict.cannotBeChecked = true;
  fs::path ranksDir = dir / "shrunk", oneDir = dir / "shrunk-one-device";
  std::error_code code;
  fs::create_directories(ranksDir, code);
  fs::create_directories(oneDir, code);
  LayoutModel layouts{*shrunk.wide, cluster, shrunk.wideDegrees};
  std::optional<rt::Plan> plan =
      buildForRanks(settings, *shrunk.program, cluster, degrees, ranksDir,
                    observer, &layouts);
  keepsLayouts = layouts.isUsed;
  std::optional<rt::Plan> one;
  if (plan)
    one = buildForOneDevice(settings, *shrunk.program, degrees, oneDir);
  if (!plan || !one)
    verdict.why = "the shrunk model cannot be compiled";
  else
    verdict = compareTwice({*plan, ranksDir.string(), compressionOf(degrees)},
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
  std::string error;
  ScopedDiagnosticHandler handler(fused.getContext(), [&](Diagnostic &d) {
    if (error.empty() && d.getSeverity() == DiagnosticSeverity::Error)
      error = d.str();
    return success();
  });
  cost::Verification verification;
  auto shrunk =
      shrinkForStrategy(fused, settings.options, strategy, globalBatch);
  if (failed(shrunk)) {
    verification.why = "the model cannot be shrunk: " + error;
    return verification;
  }
  shrunk->wideDegrees.linkSpeed = linkSpeed;
  bool keepsLayouts = false;
  Verdict verdict = verifyShrunk(*shrunk, settings, cluster, dir, keepsLayouts);
  if (!verdict.ok() && verdict.cannotBeChecked)
    verification.why = verdict.why + (error.empty() ? "" : ": " + error);
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
