//===- Evaluator.cpp - Strategies evaluated over the IR -------------------===//
#include "passes/search/Evaluator.h"

#include "passes/search/StepEstimate.h"
#include "passes/shard/OpTime.h"
#include "passes/shard/Passes.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace dpc;

static double bytesOf(Value value) {
  return sizeInBytes(cast<RankedTensorType>(value.getType()));
}

ProgramEvaluator::ProgramEvaluator(ModuleOp program,
                                   const cost::Cluster &cluster,
                                   const ShardDegrees &common)
    : program(program), cluster(cluster), common(common) {
  func::FuncOp func = findProgram(program);
  sumUpArguments(func);
  sumUp(func);
}

void ProgramEvaluator::sumUpArguments(func::FuncOp func) {
  for (BlockArgument arg : func.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto role = func.getArgAttrOfType<StringAttr>(i, attr::kRole);
    auto type = cast<RankedTensorType>(arg.getType());
    if (!role)
      continue;
    if (role.getValue() == role::kParameter) {
      sums.parameters += type.getNumElements();
      sums.parameterBytes += bytesOf(arg);
      sums.gradientBytes += bytesOf(arg);
      // Masters of mixed precision are split with the optimizer's states.
      hasCopies |= llvm::any_of(arg.getUsers(), llvm::IsaPred<ConvertOp>);
    } else if (role.getValue() == role::kState) {
      sums.optimizerBytes += bytesOf(arg);
    } else if (role.getValue() == role::kInput) {
      auto batch = func.getArgAttrOfType<IntegerAttr>(i, attr::kBatchDim);
      if (!batch)
        continue;
      sums.globalBatch = type.getDimSize(batch.getInt());
      // Token ids are the largest of them; labels may be one number a sample.
      if (type.getElementType().isInteger())
        sums.tokensPerSample = std::max(
            sums.tokensPerSample,
            static_cast<double>(type.getNumElements()) / sums.globalBatch);
    }
  }
}

void ProgramEvaluator::sumUp(func::FuncOp func) {
  sums.training = func.getName() == "train_step";
  double activations = 0;
  int64_t layers = 0;
  for (Operation &op : func.getBody().front()) {
    if (auto costed = dyn_cast<CostOpInterface>(op)) {
      sums.flopsPerStep += costed.getFlops();
      if (isa<AttentionOp, AttentionGradOp>(op))
        attentionFlops += costed.getFlops();
    }
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      Type type = matmul.getA().getType().getElementType();
      sums.computeType = costType(type);
    }
    layers += isa<AttentionOp>(op);
    if (auto norm = dyn_cast<NormOp>(op); norm && !sums.hiddenBytesPerSample)
      sums.hiddenBytesPerSample = bytesOf(norm.getX()) / sums.globalBatch;
    if (phaseOf(&op) != StepPhase::forward || isBufferView(&op))
      continue;
    for (Value result : op.getResults())
      if (llvm::any_of(result.getUsers(), [](Operation *user) {
            return phaseOf(user) == StepPhase::backward;
          }))
        activations += bytesOf(result);
  }
  sums.activationBytesPerSample = activations / sums.globalBatch;
  sums.layers = std::max<int64_t>(1, layers);
}

/// The mean over pipeline stages: the fullest and the slowest are not below it.
cost::Bounds ProgramEvaluator::bound(const cost::Strategy &strategy) {
  cost::Bounds bounds;
  // Most ways in which something may be split. ZeRO splits over the sequence's
  // ranks as well, experts lie on any ranks of a stage.
  double stage = strategy.dp * strategy.cp * strategy.tp;
  double split = std::min<double>(strategy.tp * strategy.ep, stage);
  double data = strategy.cp *
                (strategy.hybridShard > 1 ? strategy.hybridShard : strategy.dp);
  auto shareOf = [&](bool isSharded) {
    return (isSharded ? std::min(split * data, stage) : split) * strategy.pp;
  };
  // Masters count as optimizer states.
  bool keepsWeights = strategy.offload == "none" ||
                      (strategy.offload == "optimizer" && !hasCopies);
  if (keepsWeights)
    bounds.memoryBytes +=
        sums.parameterBytes /
        shareOf(strategy.zero == 3 || (hasCopies && strategy.zero > 0));
  if (strategy.offload == "none" || strategy.offload == "parameters")
    bounds.memoryBytes += sums.optimizerBytes / shareOf(strategy.zero > 0);
  // The fullest rank holds ceil(batch / dp) samples.
  const cost::Device &device = cluster.slowestDevice(sums.computeType);
  double peak =
      *std::max_element(device.peakFlops.begin(), device.peakFlops.end());
  double samples = ceilDiv(sums.globalBatch, strategy.dp);
  double share =
      samples / sums.globalBatch / (strategy.tp * strategy.cp * strategy.pp);
  // Causal attention over sequence shards may leave out what it masks: half.
  double flops = sums.flopsPerStep - (strategy.cp > 1 ? attentionFlops / 2 : 0);
  bounds.stepSeconds = flops * share / peak;
  return bounds;
}

cost::Evaluation ProgramEvaluator::evaluate(const cost::Strategy &strategy) {
  cost::Evaluation evaluation;
  std::string why;
  // What cannot be built is a row of the report, not an error.
  ScopedDiagnosticHandler handler(program.getContext(), [&](Diagnostic &d) {
    if (why.empty() && d.getSeverity() == DiagnosticSeverity::Error)
      why = d.str();
    return success();
  });
  ShardDegrees degrees = degreesOf(strategy, sums.globalBatch, common);
  auto module = lowerForStrategy(program, cluster, degrees);
  if (failed(module)) {
    evaluation.rejected = why.empty() ? "cannot be compiled" : why;
    return evaluation;
  }
  SmallVector<func::FuncOp> steps = findSteps(**module);
  cost::Result<StepTime> estimate = estimateTime(steps, cluster);
  if (!estimate) {
    evaluation.rejected = estimate.error();
    return evaluation;
  }
  const StepTime &time = *estimate;
  evaluation.stepSeconds = time.seconds;
  evaluation.computeSeconds = time.computeSeconds;
  evaluation.exposedCommunicationSeconds = time.exposedCommunicationSeconds;
  evaluation.transferSeconds = time.transferSeconds;
  evaluation.bubbleFraction = time.bubbleFraction;
  evaluation.bytesPerLevel = time.bytesPerLevel;
  evaluation.flops = sums.flopsPerStep;
  for (auto [i, step] : llvm::enumerate(steps)) {
    cost::MemoryBreakdown memory = estimateMemory(step).categories;
    if (memory.total() > evaluation.memory.total())
      evaluation.memory = memory;
    OffloadedBytes away = offloadedBytes(step);
    evaluation.hostBytes = std::max<double>(evaluation.hostBytes, away.host);
    evaluation.diskBytes = std::max<double>(evaluation.diskBytes, away.disk);
    if (time.stages.empty())
      continue;
    const StageTime &stage = time.stages[i];
    evaluation.stages.push_back({stage.forwardSeconds, stage.backwardSeconds,
                                 stage.weightSeconds, stage.idleSeconds,
                                 memory.total()});
  }
  return evaluation;
}
