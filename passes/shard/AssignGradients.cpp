//===- AssignGradients.cpp - Sums of gradients ----------------------------===//
//
// If several ops read a value, differentiation adds their gradients in pairs.
// Here, gradients of equal type are added first, so that partial sums are
// reduced once. In a pipeline each stage adds its gradients, and the sums of
// several stages are then added:
//   * For a parameter, sums are added once per step, after each is complete
//     over micro-batches and data axes. Every stage that stores the parameter
//     computes the total. A copy of a parameter in half precision is handled in
//     the same way, and its sums are converted before they are accumulated.
//   * For other values, each stage adds its sum to the sum that it receives
//     from the next stage.
//
//===----------------------------------------------------------------------===//
#include "passes/shard/Assignment.h"

#include "passes/cost/OpTime.h"
#include "passes/shard/ReshardPlan.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace dpc;

/// Sums by stage, ascending.
using StageSums = SmallVector<std::pair<int64_t, Value>>;

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

static void setStage(Operation *op, int64_t stage) {
  op->setAttr(attr::kStage, Builder(op->getContext()).getI64IntegerAttr(stage));
}

/// Adds values of one type in order. The sums get the attributes of `like`.
static Value addInOrder(Assignment &state, OpBuilder &builder,
                        ArrayRef<Value> values, Operation *like) {
  Value sum = values.front();
  for (Value value : values.drop_front()) {
    auto add = BinaryOp::create(builder, like->getLoc(), sum.getType(),
                                BinaryKind::add, sum, value);
    add->setAttrs(like->getAttrDictionary());
    if (state.isLate({sum, value}))
      state.late.insert(add.getResult());
    sum = add.getResult();
  }
  return sum;
}

/// Returns the sharding of one of `values`, without its partial sums, to which
/// all values can be resharded with the fewest bytes; the first on ties.
static ShardingSpec cheapestCommon(const Assignment &state,
                                   ArrayRef<Value> values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ShardingSpec best;
  double bestBytes = kInfinity;
  for (Value candidate : values) {
    ShardingSpec target = state.actual(candidate);
    target.partial.clear();
    double bytes = 0;
    for (Value value : values)
      bytes += reshardBytes(state.actual(value), target, elementBytes(value))
                   .value_or(kInfinity);
    if (bytes < bestBytes || !best.mesh) {
      best = target;
      bestBytes = bytes;
    }
  }
  return best;
}

/// Adds the gradients of one stage. The sums get the attributes of `like`.
static Value sumUp(Assignment &state, OpBuilder &builder,
                   ArrayRef<Value> addends, Operation *like) {
  llvm::MapVector<Type, SmallVector<Value>> byType;
  for (Value addend : addends)
    byType[addend.getType()].push_back(addend);
  SmallVector<Value> sums;
  for (auto &[type, values] : byType)
    sums.push_back(addInOrder(state, builder, values, like));
  if (sums.size() > 1) {
    ShardingSpec target = cheapestCommon(state, sums);
    for (Value &sum : sums)
      sum = reshard(state, builder, sum, target, like->getAttr(attr::kPhase));
  }
  return addInOrder(state, builder, sums, like);
}

/// Returns the gradient of a parameter that several stages store. Each of these
/// stages computes it, so it is not assigned to a stage.
static Value sumOverStages(Assignment &state, OpBuilder &builder,
                           const StageSums &sums, BlockArgument parameter,
                           Operation *root) {
  Attribute phase = root->getAttr(attr::kPhase);
  SmallVector<Value> complete;
  for (auto [stage, sum] : sums) {
    reshardGradient(state, builder, sum, parameter, phase);
    complete.push_back(
        reshard(state, builder, sum, state.updateSpecs.at(parameter), phase));
  }
  root->removeAttr(attr::kStage);
  setPhase(root, Phase::update);
  return addInOrder(state, builder, complete, root);
}

/// Adds the sums from the last stage to the first.
static Value sumBackwards(Assignment &state, OpBuilder &builder,
                          const StageSums &sums, Operation *root) {
  Value total;
  for (auto [stage, sum] : llvm::reverse(sums)) {
    setStage(root, stage);
    total = total ? sumUp(state, builder, {total, sum}, root) : sum;
  }
  return total;
}

/// Returns the only reader of `root` if it is a parameter's gradient.
static ConvertOp conversionOf(const Assignment &state, BinaryOp root) {
  if (!root->hasOneUse())
    return nullptr;
  auto convert = dyn_cast<ConvertOp>(*root->user_begin());
  return convert && state.parameterOf.contains(convert.getResult()) ? convert
                                                                    : nullptr;
}

/// Converts the sum of each stage to the type of `like`, on this stage.
static void convertSums(Assignment &state, OpBuilder &builder, StageSums &sums,
                        ConvertOp like) {
  Type elementType = elementTypeOf(like.getResult());
  for (auto &[stage, sum] : sums) {
    auto convert = ConvertOp::create(builder, like.getLoc(),
                                     tensorType(sum).clone(elementType), sum);
    convert->setAttrs(like->getAttrDictionary());
    setStage(convert, stage);
    if (state.late.contains(sum))
      state.late.insert(convert.getResult());
    sum = convert.getResult();
  }
}

void dpc::assignGradientSum(Assignment &state, BinaryOp root) {
  SmallVector<Value> addends;
  SmallVector<Operation *> inner;
  collectAddends(root, addends, inner);
  std::optional<int64_t> rootStage = stageOf(root);
  std::map<int64_t, SmallVector<Value>> byStage;
  for (Value addend : addends) {
    Operation *producer = addend.getDefiningOp();
    auto stage = producer ? stageOf(producer) : std::nullopt;
    byStage[stage.value_or(rootStage.value_or(0))].push_back(addend);
  }
  OpBuilder builder(root);
  StageSums sums;
  for (auto &[stage, values] : byStage) {
    if (rootStage)
      setStage(root, stage);
    sums.push_back({stage, sumUp(state, builder, values, root)});
  }
  Value result = root.getResult();
  if (ConvertOp convert = conversionOf(state, root);
      convert && sums.size() > 1) {
    convertSums(state, builder, sums, convert);
    convert.getXMutable().set(addends.front());
    state.replaced.insert(convert);
    result = convert.getResult();
  }
  BlockArgument parameter = state.parameterOf.lookup(result);
  Value total = sums.front().second;
  if (sums.size() > 1)
    total = parameter ? sumOverStages(state, builder, sums, parameter, root)
                      : sumBackwards(state, builder, sums, root);
  if (parameter) {
    state.parameterOf[total] = parameter;
    if (sums.size() == 1)
      reshardGradient(state, builder, total, parameter,
                      root->getAttr(attr::kPhase));
  }
  result.replaceAllUsesWith(total);
  root.erase();
  for (Operation *op : inner)
    op->erase();
}
