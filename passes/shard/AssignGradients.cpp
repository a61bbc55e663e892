//===- AssignGradients.cpp - Sums of gradients ----------------------------===//
//
// What several readers send back to a value is added pairwise. Contributions
// that lie alike are added first, so that partial ones are reduced once.
//
//===----------------------------------------------------------------------===//
#include "passes/shard/Assigner.h"

#include "passes/local/ReshardPlan.h"
#include "passes/shard/OpTime.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace dpc;

bool dpc::isGradientSum(Operation *op) {
  auto add = dyn_cast<BinaryOp>(op);
  auto phase = op->getAttrOfType<StringAttr>(attr::kPhase);
  return add && add.getKind() == BinaryKind::add && phase &&
         phase.getValue() == "backward" && !op->hasAttr(attr::kGroup);
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

void Assigner::assignGradientSum(BinaryOp root) {
  SmallVector<Value> addends;
  SmallVector<Operation *> inner;
  collectAddends(root, addends, inner);
  llvm::MapVector<Type, SmallVector<Value>> alike;
  for (Value addend : addends)
    alike[addend.getType()].push_back(addend);
  OpBuilder builder(root);
  SmallVector<Value> sums;
  for (auto &[type, values] : alike)
    sums.push_back(addUp(builder, values, root));
  if (sums.size() > 1) {
    ShardingSpec target = cheapestCommon(sums);
    for (Value &sum : sums)
      sum = reshard(builder, sum, target, root->getAttr(attr::kPhase));
  }
  Value total = addUp(builder, sums, root);
  auto parameter = parameterOf.find(root.getResult());
  if (parameter != parameterOf.end()) {
    BlockArgument arg = parameter->second;
    parameterOf[total] = arg;
    if (arg)
      reshardGradient(builder, total, arg, root->getAttr(attr::kPhase));
  }
  root.getResult().replaceAllUsesWith(total);
  root.erase();
  for (Operation *op : inner)
    op->erase();
}
