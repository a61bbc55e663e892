//===- AssignGradients.cpp - Sums of gradients ----------------------------===//
//
// What several readers send back to a value is added pairwise. Contributions
// that lie alike are added first, so that partial ones are reduced once. In a
// pipeline those of one stage are added there. The sums of several stages meet
//   * for a parameter: when each is complete (over micro-batches and data),
//   once
//     per step; every stage that holds the parameter makes the sum itself
//     (so do those of a copy in half precision, converted before they are sums
//     over micro-batches);
//   * else on the way back: a stage adds its own to what comes from behind.
//
//===----------------------------------------------------------------------===//
#include "passes/shard/Assigner.h"

#include "ir/Attributes.h"
#include "passes/cost/OpTime.h"
#include "passes/shard/ReshardPlan.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace dpc;

bool dpc::isGradientSum(Operation *op) {
  auto add = dyn_cast<BinaryOp>(op);
  return add && add.getKind() == BinaryKind::add &&
         phaseOf(op) == Phase::backward && !op->hasAttr(attr::kGroup);
}

bool dpc::isInnerSum(Operation *op) {
  return isGradientSum(op) && op->getResult(0).hasOneUse() &&
         isGradientSum(*op->getResult(0).user_begin());
}

static void collectAddends(Operation *sum, SmallVectorImpl<Value> &addends,
                           SmallVectorImpl<Operation *> &inner) {
  for (Value operand : sum->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (producer && isInnerSum(producer)) {
      inner.push_back(producer);
      collectAddends(producer, addends, inner);
    } else {
      addends.push_back(operand);
    }
  }
}

/// Adds values of one type from the first to the last.
Value Assigner::addUp(OpBuilder &builder, ArrayRef<Value> values,
                      Operation *like) {
  Value sum = values.front();
  for (Value value : values.drop_front()) {
    auto add = BinaryOp::create(builder, like->getLoc(), sum.getType(),
                                BinaryKind::add, sum, value);
    add->setAttrs(like->getAttrDictionary());
    if (late.contains(sum) || late.contains(value))
      late.insert(add.getResult());
    sum = add.getResult();
  }
  return sum;
}

/// The sharding, among the values' own without what is partial, that takes
/// least traffic to bring all of them to.
ShardingSpec Assigner::cheapestCommon(ArrayRef<Value> values) const {
  ShardingSpec best;
  double bestBytes = std::numeric_limits<double>::infinity();
  for (Value candidate : values) {
    ShardingSpec target = actual(candidate);
    target.partial.clear();
    double bytes = 0;
    for (Value value : values) {
      ReshardCost cost =
          reshardTraffic(actual(value), target, elementBytes(value));
      bytes += cost.feasible ? cost.sentBytes()
                             : std::numeric_limits<double>::infinity();
    }
    if (bytes < bestBytes || !best.mesh) {
      best = target;
      bestBytes = bytes;
    }
  }
  return best;
}

/// Adds contributions of one stage; `like` says when.
Value Assigner::sumUp(OpBuilder &builder, ArrayRef<Value> addends,
                      Operation *like) {
  llvm::MapVector<Type, SmallVector<Value>> alike;
  for (Value addend : addends)
    alike[addend.getType()].push_back(addend);
  SmallVector<Value> sums;
  for (auto &[type, values] : alike)
    sums.push_back(addUp(builder, values, like));
  if (sums.size() > 1) {
    ShardingSpec target = cheapestCommon(sums);
    for (Value &sum : sums)
      sum = reshard(builder, sum, target, like->getAttr(attr::kPhase));
  }
  return addUp(builder, sums, like);
}

/// The sum of what several stages send back to a parameter, as the optimizer
/// reads it. No stage is its home.
Value Assigner::sumOverStages(OpBuilder &builder,
                              ArrayRef<std::pair<int64_t, Value>> sums,
                              BlockArgument parameter, Operation *root) {
  Attribute phase = root->getAttr(attr::kPhase);
  SmallVector<Value> complete;
  for (auto [stage, sum] : sums) {
    reshardGradient(builder, sum, parameter, phase);
    complete.push_back(reshard(builder, sum, updateSpecs.at(parameter), phase));
  }
  root->removeAttr(attr::kStage);
  setPhase(root, Phase::update);
  return addUp(builder, complete, root);
}

/// Adds per stage from the last to the first.
Value Assigner::sumBackwards(OpBuilder &builder,
                             ArrayRef<std::pair<int64_t, Value>> sums,
                             Operation *root) {
  Value total;
  for (auto [stage, sum] : llvm::reverse(sums)) {
    root->setAttr(attr::kStage, builder.getI64IntegerAttr(stage));
    total = total ? sumUp(builder, {total, sum}, root) : sum;
  }
  return total;
}

/// The conversion that makes a parameter's gradient of `root`, if nothing else
/// reads that.
ConvertOp Assigner::conversionOf(BinaryOp root) const {
  if (!root->hasOneUse())
    return nullptr;
  auto convert = dyn_cast<ConvertOp>(*root->user_begin());
  return convert && parameterOf.contains(convert.getResult()) ? convert
                                                              : nullptr;
}

/// Converts what each stage has added up, there.
void Assigner::convertSums(OpBuilder &builder,
                           MutableArrayRef<std::pair<int64_t, Value>> sums,
                           ConvertOp like) {
  Type elementType =
      cast<RankedTensorType>(like.getResult().getType()).getElementType();
  for (auto &[stage, sum] : sums) {
    auto type = cast<RankedTensorType>(sum.getType());
    auto convert = ConvertOp::create(
        builder, like.getLoc(),
        RankedTensorType::get(type.getShape(), elementType, type.getEncoding()),
        sum);
    convert->setAttrs(like->getAttrDictionary());
    convert->setAttr(attr::kStage, builder.getI64IntegerAttr(stage));
    if (late.contains(sum))
      late.insert(convert.getResult());
    sum = convert.getResult();
  }
}

void Assigner::assignGradientSum(BinaryOp root) {
  SmallVector<Value> addends;
  SmallVector<Operation *> inner;
  collectAddends(root, addends, inner);
  std::optional<int64_t> home = stageOf(root);
  std::map<int64_t, SmallVector<Value>> byStage;
  for (Value addend : addends) {
    Operation *producer = addend.getDefiningOp();
    auto stage = producer ? stageOf(producer) : std::nullopt;
    byStage[stage.value_or(home.value_or(0))].push_back(addend);
  }
  OpBuilder builder(root);
  SmallVector<std::pair<int64_t, Value>> sums;
  for (auto &[stage, values] : byStage) {
    if (home)
      root->setAttr(attr::kStage, builder.getI64IntegerAttr(stage));
    sums.push_back({stage, sumUp(builder, values, root)});
  }
  Value result = root.getResult();
  if (ConvertOp convert = conversionOf(root); convert && sums.size() > 1) {
    // The copy of a parameter that several stages read: its gradients meet once
    // per step as well, when they are complete in the parameter's type.
    convertSums(builder, sums, convert);
    convert.getXMutable().set(addends.front());
    replaced.insert(convert);
    result = convert.getResult();
  }
  auto found = parameterOf.find(result);
  BlockArgument parameter;
  if (found != parameterOf.end())
    parameter = found->second;
  Value total = sums.front().second;
  if (sums.size() > 1)
    total = parameter ? sumOverStages(builder, sums, parameter, root)
                      : sumBackwards(builder, sums, root);
  if (parameter) {
    parameterOf[total] = parameter;
    if (sums.size() == 1)
      reshardGradient(builder, total, parameter, root->getAttr(attr::kPhase));
  }
  result.replaceAllUsesWith(total);
  root.erase();
  for (Operation *op : inner)
    op->erase();
}
