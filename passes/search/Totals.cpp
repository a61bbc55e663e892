//===- Totals.cpp - What the whole program adds up to ---------------------===//
#include "passes/search/Totals.h"

#include "passes/search/StepEstimate.h"
#include "passes/shard/Experts.h"
#include "passes/shard/OpTime.h"

#include "mlir/IR/OwningOpRef.h"

using namespace mlir;
using namespace dpc;

static double bytesOf(Value value) {
  return sizeInBytes(cast<RankedTensorType>(value.getType()));
}

static void sumUpArguments(func::FuncOp func, ProgramTotals &result) {
  cost::ModelTotals &sums = result.sums;
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
      result.hasCopies |=
          llvm::any_of(arg.getUsers(), llvm::IsaPred<ConvertOp>);
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

static void sumUpOps(func::FuncOp func, ProgramTotals &result) {
  cost::ModelTotals &sums = result.sums;
  sums.training = func.getName() == "train_step";
  double activations = 0;
  int64_t layers = 0;
  for (Operation &op : func.getBody().front()) {
    if (auto costed = dyn_cast<CostOpInterface>(op)) {
      sums.flopsPerStep += costed.getFlops();
      if (isa<AttentionOp, AttentionGradOp>(op))
        result.attentionFlops += costed.getFlops();
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

/// A cheap look before findExperts: a stack of weights, and a choice between as
/// many.
static bool mayHaveExperts(func::FuncOp func) {
  DenseSet<int64_t> stacks;
  for (BlockArgument arg : func.getArguments()) {
    auto role =
        func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kRole);
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (role && role.getValue() == role::kParameter && type.getRank() >= 3)
      stacks.insert(type.getShape().begin(), type.getShape().end());
  }
  return !stacks.empty() &&
         llvm::any_of(func.getBody().front(), [&](Operation &op) {
           return isa<TopKOp, SoftmaxOp>(op) &&
                  stacks.contains(
                      cast<RankedTensorType>(op.getOperand(0).getType())
                          .getShape()
                          .back());
         });
}

/// Bytes of values that go between ops of experts and others, forward.
static double routedBytes(const ProgramFacts &facts, const Experts &experts) {
  double bytes = 0;
  DenseSet<Value> counted;
  auto count = [&](Value value) {
    if (facts.hasBatch(value) && counted.insert(value).second)
      bytes += bytesOf(value);
  };
  for (const auto &[op, factor] : experts.ops) {
    for (Value operand : op->getOperands())
      if (!experts.ops.contains(operand.getDefiningOp()))
        count(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return facts.isForward(user) && !experts.ops.contains(user);
          }))
        count(result);
  }
  return bytes;
}

static void sumUpExperts(func::FuncOp original, ProgramTotals &result) {
  if (!mayHaveExperts(original))
    return;
  OwningOpRef<func::FuncOp> func(original.clone());
  separateConstants(*func);
  ProgramFacts facts(*func);
  constexpr int64_t kRanks = 2; // whatever there is shows on any number
  Experts experts = findExperts(facts, kRanks);
  cost::ModelTotals &sums = result.sums;
  for (const auto &[parameter, factor] : experts.parameters) {
    sums.expertParameters +=
        cast<RankedTensorType>(parameter.getType()).getNumElements();
    sums.experts =
        std::max(sums.experts, facts.factors.factorSize(parameter, factor));
  }
  sums.routedBytesPerSample = routedBytes(facts, experts) /
                              double(sums.globalBatch) / double(sums.layers);
}

ProgramTotals dpc::sumUp(func::FuncOp func) {
  ProgramTotals result;
  sumUpArguments(func, result);
  sumUpOps(func, result);
  sumUpExperts(func, result);
  return result;
}

ProgramTotals dpc::alongLayers(const ProgramTotals &fewer,
                               const ProgramTotals &more, int64_t layers) {
  ProgramTotals result = fewer;
  auto extend = [&](auto member) {
    double a = fewer.sums.*member, b = more.sums.*member;
    result.sums.*member = a + layers * (b - a);
  };
  for (auto member :
       {&cost::ModelTotals::parameters, &cost::ModelTotals::parameterBytes,
        &cost::ModelTotals::gradientBytes, &cost::ModelTotals::optimizerBytes,
        &cost::ModelTotals::flopsPerStep, &cost::ModelTotals::expertParameters,
        &cost::ModelTotals::activationBytesPerSample})
    extend(member);
  result.sums.layers += layers * (more.sums.layers - fewer.sums.layers);
  result.attentionFlops +=
      layers * (more.attentionFlops - fewer.attentionFlops);
  return result;
}
