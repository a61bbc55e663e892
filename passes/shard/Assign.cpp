//===- Assign.cpp - Shardings into types ----------------------------------===//
#include "passes/shard/Assign.h"

#include "passes/local/ReshardPlan.h"
#include "passes/shard/Assigner.h"
#include "passes/shard/OpTime.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace dpc;

MeshAttr dpc::meshFor(MLIRContext *context, const ShardDegrees &degrees) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto add = [&](StringRef name, int64_t size) {
    if (size <= 1)
      return;
    names.push_back(StringAttr::get(context, name));
    sizes.push_back(size);
  };
  add("dp", degrees.dp);
  add("tp", degrees.tp);
  add(kMicroBatchAxis, degrees.microBatches);
  return MeshAttr::get(context, names, sizes);
}

Assigner::Assigner(const ProgramFacts &facts, const ShardChoices &choices,
                   const ShardDegrees &degrees)
    : facts(facts), choices(choices), func(facts.func),
      mesh(meshFor(facts.func->getContext(), degrees)),
      dpAxis(mesh.findAxis("dp")), tpAxis(mesh.findAxis("tp")),
      mbAxis(mesh.findAxis(kMicroBatchAxis)), zero(dpAxis ? degrees.zero : 0) {}

//===----------------------------------------------------------------------===//
// What tensor parallelism may do in an op
//===----------------------------------------------------------------------===//

/// A gradient op splits what its forward op splits, found by class.
TpChoice Assigner::gradientChoice(Operation *op, Operation *forward) const {
  auto found = choices.ops.find(forward);
  if (found == choices.ops.end())
    return {};
  const TpChoice &choice = found->second;
  if (choice.kind == TpChoice::replicate)
    return choice;
  if (choice.kind == TpChoice::split) {
    int64_t cls = facts.factors.classOf(forward, choice.factor);
    for (IterFactor factor : facts.factors.splittable(op))
      if (facts.factors.classOf(op, factor) == cls)
        return {TpChoice::split, factor, -1};
  }
  return {TpChoice::gradPartial, {}, -1};
}

SmallVector<TpChoice> Assigner::candidates(Operation *op) const {
  TpChoice free{TpChoice::gradPartial, {}, -1};
  // The optimizer lies as its parameter does, a combining op takes anything.
  if (!tpAxis || isa<AdamWOp, SgdOp>(op) || facts.factors.rule(op).combines)
    return {free};
  auto chosen = choices.ops.find(op);
  if (chosen != choices.ops.end())
    return {chosen->second, free, TpChoice{}};
  auto forward = facts.forwardOf.find(op);
  if (forward != facts.forwardOf.end())
    return {gradientChoice(op, forward->second), free, TpChoice{}};
  SmallVector<TpChoice> all = {free};
  for (IterFactor factor : facts.factors.splittable(op))
    all.push_back({TpChoice::split, factor, -1});
  all.push_back(TpChoice{});
  return all;
}

//===----------------------------------------------------------------------===//
// Plans of ops
//===----------------------------------------------------------------------===//

std::vector<DimFactors> Assigner::iterSplits(Operation *op,
                                             const TpChoice &choice) const {
  const ShardingRule &rule = facts.factors.rule(op);
  std::vector<DimFactors> splits;
  bool batchDone = false;
  for (int64_t d = 0, e = rule.dims.size(); d < e; ++d) {
    DimFactors dim;
    for (auto [f, size] : llvm::enumerate(facts.factors.factors(op, d))) {
      Factor factor{size, {}};
      IterFactor id{d, static_cast<int64_t>(f)};
      if (!batchDone && facts.batchClass >= 0 &&
          facts.factors.classOf(op, id) == facts.batchClass &&
          facts.factors.canSplit(op, id)) {
        batchDone = true;
        for (auto axis : {dpAxis, mbAxis})
          if (axis)
            factor.axes.push_back(*axis);
      }
      if (tpAxis && choice.kind == TpChoice::split && choice.factor == id)
        factor.axes.push_back(*tpAxis);
      dim.push_back(factor);
    }
    if (dim.empty())
      dim.push_back({rule.dims[d].size, {}});
    splits.push_back(canonicalize(mesh, dim));
  }
  // Parameter, states and gradient lie alike, however that is.
  if (isa<AdamWOp, SgdOp>(op)) {
    auto update = updateSpecs.find(op->getOperand(0));
    const ShardingSpec &spec = update != updateSpecs.end()
                                   ? update->second
                                   : actual(op->getOperand(0));
    splits.assign(spec.dims.begin(), spec.dims.end());
  }
  return splits;
}

ShardingSpec Assigner::specFor(const TensorMap &map, ArrayRef<int64_t> shape,
                               const std::vector<DimFactors> &splits) const {
  ShardingSpec spec = ShardingSpec::replicated(mesh, shape);
  for (auto [d, dimMap] : llvm::enumerate(map)) {
    if (dimMap.empty())
      continue;
    DimFactors dim;
    for (int64_t iter : dimMap)
      dim.append(splits[iter]);
    spec.dims[d] = canonicalize(mesh, dim);
  }
  return spec;
}

/// Lets operands stay partial where the op passes sums on: one reduction at the
/// end is cheaper than many on the way.
void Assigner::keepPartials(Operation *op, const TpChoice &choice,
                            const std::vector<DimFactors> &splits,
                            OpPlan &plan) const {
  const ShardingRule &rule = facts.factors.rule(op);
  llvm::SmallSet<int64_t, 4> used;
  for (const DimFactors &dim : splits)
    for (const Factor &factor : dim)
      used.insert(factor.axes.begin(), factor.axes.end());
  bool anyLate = llvm::any_of(op->getOperands(),
                              [&](Value v) { return late.contains(v); });
  for (int64_t axis = 0, e = mesh.getNames().size(); axis < e; ++axis) {
    if (used.contains(axis) || (axis == mbAxis && anyLate) ||
        (axis == tpAxis && choice.kind == TpChoice::replicate))
      continue;
    SmallVector<int64_t, 2> holders;
    ReduceKind kind = ReduceKind::sum;
    bool sums = true;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (auto found = actual(operand).partialOver(axis)) {
        holders.push_back(i);
        kind = *found;
        sums &= kind == ReduceKind::sum;
      }
    if (holders.empty())
      continue;
    bool moved = rule.movesData && holders == SmallVector<int64_t, 2>{0};
    if (moved || (sums && llvm::is_contained(rule.linear, holders)))
      for (int64_t i : holders)
        plan.operands[i].partial.push_back({axis, kind});
  }
}

std::optional<OpPlan> Assigner::plan(Operation *op, const TpChoice &choice) {
  const ShardingRule &rule = facts.factors.rule(op);
  std::vector<DimFactors> splits = iterSplits(op, choice);
  OpPlan plan;
  for (auto [map, operand] : llvm::zip(rule.operands, op->getOperands())) {
    ShardingSpec spec;
    if (rule.combines) {
      // Any sharding will do; a gradient has been brought to its parameter's.
      auto parameter = parameterOf.find(operand);
      spec = parameter != parameterOf.end() && parameter->second
                 ? updateSpecs.at(parameter->second)
                 : actual(operand);
      spec.partial.clear();
    } else {
      spec = specFor(map, cast<RankedTensorType>(operand.getType()).getShape(),
                     splits);
    }
    plan.operands.push_back(spec);
  }
  if (!rule.combines)
    keepPartials(op, choice, splits, plan);
  std::vector<ShardingSpec> hints;
  for (auto [map, result] : llvm::zip(rule.results, op->getResults()))
    hints.push_back(specFor(
        map, cast<RankedTensorType>(result.getType()).getShape(), splits));
  auto results = inferResults(rule, mesh, plan.operands, hints, why);
  if (!results)
    return std::nullopt;
  plan.results = std::move(*results);
  for (auto [want, operand] : llvm::zip(plan.operands, op->getOperands())) {
    if (isSamePlacement(actual(operand), want))
      continue;
    ReshardCost cost =
        reshardTraffic(actual(operand), want, elementBytes(operand));
    if (!cost.feasible) {
      why = "an operand split into micro-batches is needed whole";
      return std::nullopt;
    }
    plan.bytes += cost.sentBytes();
  }
  return plan;
}

Value Assigner::reshard(OpBuilder &builder, Value value, const ShardingSpec &to,
                        Attribute phase) {
  if (isSamePlacement(actual(value), to))
    return value;
  ShardingAttr target = to.toAttr();
  if (getSharding(value.getType()) == target)
    return value;
  bool atUse = isGatheredAtUse(value);
  Value &made = reshards[{value, {target, atUse ? phase : Attribute()}}];
  if (made)
    return made;
  auto type = cast<RankedTensorType>(value.getType());
  auto op =
      ReshardOp::create(builder, value.getLoc(), withSharding(type, to), value);
  if (phase)
    op->setAttr(attr::kPhase, phase);
  if (atUse)
    op->setAttr(attr::kAtUse, builder.getUnitAttr());
  bool accumulates =
      mbAxis && actual(value).partialOver(*mbAxis) && !to.partialOver(*mbAxis);
  if (accumulates || late.contains(value))
    late.insert(op.getResult());
  return made = op.getResult();
}

/// Brings a gradient to where its parameter is updated. From ZeRO-2 on it is
/// scattered before it is accumulated, so that no rank keeps all of it.
void Assigner::reshardGradient(OpBuilder &builder, Value gradient,
                               BlockArgument parameter, Attribute phase) {
  const ShardingSpec &target = updateSpecs.at(parameter);
  std::optional<ReduceKind> pending;
  if (mbAxis)
    pending = actual(gradient).partialOver(*mbAxis);
  if (zero >= 2 && pending) {
    ShardingSpec scattered = target;
    scattered.partial.push_back({*mbAxis, *pending});
    Value shard = reshard(builder, gradient, scattered, phase);
    Value &done = reshards[{gradient, {target.toAttr(), Attribute()}}];
    done = reshard(builder, shard, target, phase);
    return;
  }
  reshard(builder, gradient, target, phase);
}

void Assigner::apply(Operation *op, const OpPlan &plan) {
  OpBuilder builder(op);
  Attribute phase = op->getAttr(attr::kPhase);
  bool anyLate = false;
  for (auto [operand, want] : llvm::zip(op->getOpOperands(), plan.operands)) {
    operand.set(reshard(builder, operand.get(), want, phase));
    anyLate |= late.contains(operand.get());
  }
  builder.setInsertionPointAfter(op);
  for (auto [result, spec] : llvm::zip(op->getResults(), plan.results)) {
    result.setType(
        withSharding(cast<RankedTensorType>(result.getType()), spec));
    if (anyLate)
      late.insert(result);
    auto parameter = parameterOf.find(result);
    if (parameter != parameterOf.end() && parameter->second)
      reshardGradient(builder, result, parameter->second, phase);
  }
}

LogicalResult Assigner::assignOp(Operation *op) {
  std::optional<OpPlan> best;
  bool decided = choices.ops.count(op) || facts.forwardOf.count(op);
  for (const TpChoice &choice : candidates(op)) {
    std::optional<OpPlan> found = plan(op, choice);
    if (found && (!best || found->bytes < best->bytes))
      best = std::move(found);
    // The rest of the list is for choices that turn out not to fit.
    if (best && decided)
      break;
  }
  if (!best)
    return op->emitError("'")
           << op->getName() << "' cannot be split over " << mesh << ": " << why;
  apply(op, *best);
  return success();
}

LogicalResult Assigner::run() {
  if (failed(assignArguments()))
    return failure();
  findParameterGradients();
  SmallVector<Operation *> ops;
  for (Operation &op : func.getBody().front())
    ops.push_back(&op);
  for (Operation *op : ops) {
    if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      assignReturn(ret);
      continue;
    }
    if (isInnerSum(op))
      continue;
    if (isGradientSum(op)) {
      assignGradientSum(cast<BinaryOp>(op));
      continue;
    }
    if (!facts.factors.hasRule(op))
      return op->emitError("'") << op->getName() << "' has no sharding rule";
    if (failed(assignOp(op)))
      return failure();
  }
  return success();
}

LogicalResult dpc::assignShardings(const ProgramFacts &facts,
                                   const ShardChoices &choices,
                                   const ShardDegrees &degrees) {
  return Assigner(facts, choices, degrees).run();
}
