//===- Assign.cpp - Shardings into types ----------------------------------===//
#include "passes/shard/Assign.h"

#include "passes/cost/OpTime.h"
#include "passes/shard/Assigner.h"
#include "passes/shard/Degrees.h"
#include "passes/shard/ReshardPlan.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace dpc;

Assigner::Assigner(const ProgramFacts &facts, const ShardChoices &choices,
                   const LoweringSpec &degrees)
    : facts(facts), choices(choices), func(facts.func),
      mesh(meshFor(facts.func->getContext(), degrees)),
      mbAxis(mesh.findAxis(kMicroBatchAxis)) {
  // States are split over all ranks that hold the same, or over a node's.
  for (auto [i, axis] : llvm::enumerate(axesOf(degrees))) {
    bool isOuter = isHybrid(degrees) && axis.name == "dp";
    bool shares = axis.role == AxisRole::data ||
                  axis.role == AxisRole::expert ||
                  axis.role == AxisRole::sequence;
    if (axis.role == AxisRole::data)
      dataAxes.push_back(i);
    if (shares && !isOuter)
      zeroAxes.push_back(i);
  }
  // What is split inside a node first leaves it in shards: the axis that varies
  // slowest is scattered first and gathered last.
  std::reverse(zeroAxes.begin(), zeroAxes.end());
  if (!zeroAxes.empty())
    zero = degrees.zero;
  Builder builder(facts.func->getContext());
  if (!degrees.compressGradients.empty())
    gradientCompression = builder.getStringAttr(degrees.compressGradients);
  if (!degrees.compressWeights.empty())
    weightCompression = builder.getStringAttr(degrees.compressWeights);
  for (const MeshAxis &axis : choices.axes)
    solvedAxes.push_back(*mesh.findAxis(axis.name));
}

/// What splits the batch, in this order.
SmallVector<int64_t, 2> Assigner::batchAxes() const {
  SmallVector<int64_t, 2> axes = dataAxes;
  if (mbAxis && !separatesMicroBatches())
    axes.push_back(*mbAxis);
  return axes;
}

bool Assigner::separatesMicroBatches() const {
  return mbAxis && !dataAxes.empty() && facts.microBatchClass >= 0 &&
         facts.batchFactor == productOfAxes(mesh, dataAxes);
}

/// The solved axes that split a factor, in the order in which they do. A
/// sequence axis is outermost along the sequence, so that tensor axes gather
/// inside of it, and innermost elsewhere: heads go from tp to tp and cp by one
/// all-to-all.
SmallVector<int64_t, 2>
Assigner::inOrder(int64_t factorClass,
                  llvm::function_ref<bool(size_t)> isSplit) const {
  bool along = facts.sequenceClasses.contains(factorClass);
  SmallVector<int64_t, 2> axes;
  for (auto [k, axis] : llvm::enumerate(solvedAxes)) {
    if (!isSplit(k))
      continue;
    bool first = along && choices.axes[k].role == AxisRole::sequence;
    axes.insert(first ? axes.begin() : axes.end(), axis);
  }
  return axes;
}

//===----------------------------------------------------------------------===//
// What solved axes may do in an op
//===----------------------------------------------------------------------===//

/// A gradient op splits what its forward op splits, found by class.
AxisChoice Assigner::gradientChoice(Operation *op, Operation *forward,
                                    const AxisChoice &choice) const {
  if (choice.kind == AxisChoice::replicate)
    return choice;
  if (choice.kind == AxisChoice::split) {
    int64_t cls = facts.factors.classOf(forward, choice.factor);
    for (IterFactor factor : facts.factors.splittable(op))
      if (facts.factors.classOf(op, factor) == cls)
        return {AxisChoice::split, factor, -1};
  }
  return {AxisChoice::gradPartial, {}, -1};
}

AxisChoices Assigner::everywhere(AxisChoice::Kind kind) const {
  return AxisChoices(solvedAxes.size(), AxisChoice{kind, {}, -1});
}

/// What search chose for the op, or for the one whose gradient it is.
std::optional<AxisChoices> Assigner::decided(Operation *op) const {
  auto chosen = choices.ops.find(op);
  if (chosen != choices.ops.end())
    return chosen->second;
  auto forward = facts.forwardOf.find(op);
  if (forward == facts.forwardOf.end())
    return std::nullopt;
  AxisChoices result;
  auto found = choices.ops.find(forward->second);
  if (found == choices.ops.end())
    return everywhere(AxisChoice::replicate);
  for (const AxisChoice &choice : found->second)
    result.push_back(gradientChoice(op, forward->second, choice));
  return result;
}

//===----------------------------------------------------------------------===//
// Plans of ops
//===----------------------------------------------------------------------===//

std::vector<DimFactors> Assigner::iterSplits(Operation *op,
                                             const AxisChoices &choice) const {
  const ShardingRule &rule = facts.factors.rule(op);
  std::vector<DimFactors> splits;
  bool batchDone = false, microBatchDone = !separatesMicroBatches();
  for (int64_t d = 0, e = rule.dims.size(); d < e; ++d) {
    DimFactors dim;
    for (auto [f, size] : llvm::enumerate(facts.factors.factors(op, d))) {
      Factor factor{size, {}};
      IterFactor id{d, static_cast<int64_t>(f)};
      if (!batchDone && facts.batchClass >= 0 &&
          facts.factors.classOf(op, id) == facts.batchClass &&
          facts.factors.canSplit(op, id)) {
        batchDone = true;
        factor.axes = batchAxes();
      } else if (!microBatchDone &&
                 facts.factors.classOf(op, id) == facts.microBatchClass &&
                 facts.factors.canSplit(op, id)) {
        microBatchDone = true;
        factor.axes = {*mbAxis};
      }
      factor.axes.append(inOrder(facts.factors.classOf(op, id), [&](size_t k) {
        return choice[k].kind == AxisChoice::split && choice[k].factor == id;
      }));
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
  if (makesCopy(op)) {
    ArrayRef<DimFactors> stored = actual(op->getOperand(0)).dims;
    splits.assign(stored.begin(), stored.end());
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

/// Whether a gradient op reads what is yet to be summed over the batch: it is
/// on the way from where a parameter's gradient is made to the parameter.
bool Assigner::leadsToParameter(Operation *op) const {
  if (!facts.forwardOf.contains(op))
    return false;
  SmallVector<int64_t, 2> axes = batchAxes();
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    const ShardingSpec &spec = actual(operand);
    return llvm::any_of(
        axes, [&](int64_t axis) { return spec.partialOver(axis).has_value(); });
  });
}

/// Lets operands stay partial where the op passes sums on: one reduction at the
/// end is cheaper than many on the way. Over an axis where the op is done by
/// all ranks alike its operands are complete; not so those of a copy's gradient
/// (a parameter's in half precision, or transposed): that is summed over all
/// axes at once, after the last micro-batch.
void Assigner::keepPartials(Operation *op, const AxisChoices &choice,
                            const std::vector<DimFactors> &splits,
                            OpPlan &plan) const {
  const ShardingRule &rule = facts.factors.rule(op);
  llvm::SmallSet<int64_t, 4> used;
  for (const DimFactors &dim : splits)
    for (const Factor &factor : dim)
      used.insert(factor.axes.begin(), factor.axes.end());
  bool anyLate = llvm::any_of(op->getOperands(),
                              [&](Value v) { return late.contains(v); });
  bool waits = leadsToParameter(op);
  auto isReplicated = [&](int64_t axis) {
    if (waits)
      return false;
    auto found = llvm::find(solvedAxes, axis);
    return found != solvedAxes.end() &&
           choice[found - solvedAxes.begin()].kind == AxisChoice::replicate;
  };
  for (int64_t axis = 0, e = mesh.getNames().size(); axis < e; ++axis) {
    if (used.contains(axis) || (axis == mbAxis && anyLate) ||
        isReplicated(axis))
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

std::optional<OpPlan> Assigner::plan(Operation *op, const AxisChoices &choice) {
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
      why = "it reads the whole batch, which micro-batches split; give "
            "micro_batch= the whole batch of a rank";
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
  return reshard(builder, value,
                 withSharding(cast<RankedTensorType>(value.getType()), to),
                 phase);
}

Value Assigner::reshard(OpBuilder &builder, Value value, RankedTensorType to,
                        Attribute phase) {
  if (value.getType() == to)
    return value;
  bool atUse = isGatheredAtUse(value);
  Value &made =
      reshards[{value, {to.getEncoding(), atUse ? phase : Attribute()}}];
  if (made)
    return made;
  auto op = ReshardOp::create(builder, value.getLoc(), to, value);
  if (phase)
    op->setAttr(attr::kPhase, phase);
  if (atUse)
    op->setAttr(attr::kAtUse, builder.getUnitAttr());
  if (atUse && weightCompression)
    op->setAttr(attr::kCompress, weightCompression);
  // What makes less of a value happens where that is made, before it travels;
  // what makes more of it, at every stage that reads it.
  Operation *producer = value.getDefiningOp();
  Attribute stage = producer ? producer->getAttr(attr::kStage) : Attribute();
  if (stage && localBytes(to) <= localBytes(value.getType()))
    op->setAttr(attr::kStage, stage);
  bool accumulates = mbAxis && actual(value).partialOver(*mbAxis) &&
                     !actual(op.getResult()).partialOver(*mbAxis);
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
    compressReduction(gradient, shard, parameter);
    Value done = reshard(builder, shard, target, phase);
    reshards[{gradient, {target.toAttr(), Attribute()}}] = done;
    return;
  }
  compressReduction(gradient, reshard(builder, gradient, target, phase),
                    parameter);
}

void Assigner::compressReduction(Value gradient, Value reduced,
                                 BlockArgument parameter) {
  if (!gradientCompression || reduced == gradient)
    return;
  Operation *op = reduced.getDefiningOp();
  op->setAttr(attr::kCompress, gradientCompression);
  // Whose state is what is kept back.
  if (topkShare(cast<StringAttr>(gradientCompression).getValue()))
    op->setAttr(attr::kOf,
                func.getArgAttr(parameter.getArgNumber(), attr::kName));
}

OpTypes Assigner::typesOf(Operation *op, const OpPlan &plan) const {
  OpTypes types;
  for (auto [operand, want] : llvm::zip(op->getOperands(), plan.operands))
    types.operands.push_back(
        isSamePlacement(actual(operand), want)
            ? RankedTensorType()
            : withSharding(cast<RankedTensorType>(operand.getType()), want));
  for (auto [result, spec] : llvm::zip(op->getResults(), plan.results))
    types.results.push_back(
        withSharding(cast<RankedTensorType>(result.getType()), spec));
  return types;
}

void Assigner::apply(Operation *op, const OpTypes &types) {
  OpBuilder builder(op);
  Attribute phase = op->getAttr(attr::kPhase);
  bool anyLate = false;
  for (auto [operand, want] : llvm::zip(op->getOpOperands(), types.operands)) {
    if (want)
      operand.set(reshard(builder, operand.get(), want, phase));
    anyLate |= late.contains(operand.get());
  }
  builder.setInsertionPointAfter(op);
  if (makesCopy(op))
    copies.insert(op->getResult(0));
  for (auto [result, type] : llvm::zip(op->getResults(), types.results)) {
    result.setType(type);
    if (anyLate)
      late.insert(result);
    auto parameter = parameterOf.find(result);
    if (parameter != parameterOf.end() && parameter->second)
      reshardGradient(builder, result, parameter->second, phase);
  }
}

/// The plan that sends least for an op that search did not decide about: one
/// axis after the other, the rest left free.
std::optional<OpPlan> Assigner::cheapest(Operation *op) {
  AxisChoices best = everywhere(AxisChoice::gradPartial);
  std::optional<OpPlan> bestPlan = plan(op, best);
  // The optimizer lies as its parameter does, a combining op takes anything.
  if (isa<AdamWOp, SgdOp>(op) || facts.factors.rule(op).combines)
    return bestPlan;
  for (size_t k = 0; k < solvedAxes.size(); ++k) {
    SmallVector<AxisChoice> all;
    for (IterFactor factor : facts.factors.splittable(op))
      all.push_back({AxisChoice::split, factor, -1});
    all.push_back(AxisChoice{});
    for (const AxisChoice &choice : all) {
      AxisChoices changed = best;
      changed[k] = choice;
      std::optional<OpPlan> found = plan(op, changed);
      if (!found || (bestPlan && found->bytes >= bestPlan->bytes))
        continue;
      best = changed;
      bestPlan = std::move(found);
    }
  }
  return bestPlan ? bestPlan : plan(op, everywhere(AxisChoice::replicate));
}

std::optional<OpPlan>
Assigner::bestPlan(Operation *op, const std::optional<AxisChoices> &choice) {
  std::optional<OpPlan> best;
  if (choice)
    best = plan(op, *choice);
  // A choice that turns out not to fit.
  return best ? best : cheapest(op);
}

/// What `bestPlan` reads of an op that does not combine its operands: the rule,
/// its factors and what their classes mean, how operands lie, the choice.
std::vector<int64_t> Assigner::keyOf(Operation *op,
                                     const std::optional<AxisChoices> &choice) {
  std::vector<int64_t> key;
  key.reserve(128);
  auto add = [&](int64_t value) { key.push_back(value); };
  auto addPointer = [&](const void *pointer) {
    key.push_back(reinterpret_cast<intptr_t>(pointer));
  };
  auto addMap = [&](const TensorMap &map) {
    for (const DimMap &dims : map) {
      add(-1 - static_cast<int64_t>(dims.size()));
      key.insert(key.end(), dims.begin(), dims.end());
    }
  };
  for (Type type : op->getOperandTypes())
    addPointer(type.getAsOpaquePointer());
  addPointer(op->getName().getAsOpaquePointer());
  for (Type type : op->getResultTypes())
    addPointer(type.getAsOpaquePointer());
  if (isa<AdamWOp, SgdOp>(op))
    if (auto it = updateSpecs.find(op->getOperand(0)); it != updateSpecs.end())
      addPointer(it->second.toAttr().getAsOpaquePointer());
  add(makesCopy(op));
  add(leadsToParameter(op));
  add(llvm::any_of(op->getOperands(),
                   [&](Value value) { return late.contains(value); }));
  add(choice.has_value());
  if (choice)
    for (const AxisChoice &one : *choice)
      key.insert(key.end(), {one.kind, one.factor.dim, one.factor.factor});
  const ShardingRule &rule = facts.factors.rule(op);
  for (auto [d, dim] : llvm::enumerate(rule.dims)) {
    key.insert(key.end(), {dim.size, dim.whole, static_cast<int>(dim.reduction),
                           facts.factors.isBlocked(op, d)});
    for (auto [f, size] : llvm::enumerate(facts.factors.factors(op, d))) {
      int64_t factorClass = facts.factors.classOf(
          op, {static_cast<int64_t>(d), static_cast<int64_t>(f)});
      key.insert(key.end(), {size, factorClass == facts.batchClass,
                             factorClass == facts.microBatchClass,
                             facts.sequenceClasses.contains(factorClass)});
    }
  }
  add(rule.movesData);
  llvm::for_each(rule.operands, addMap);
  llvm::for_each(rule.results, addMap);
  for (const auto &group : rule.linear) {
    add(-1);
    key.insert(key.end(), group.begin(), group.end());
  }
  return key;
}

LogicalResult Assigner::assignOp(Operation *op) {
  std::optional<AxisChoices> choice = decided(op);
  bool isShared = !facts.factors.rule(op).combines;
  std::vector<int64_t> key =
      isShared ? keyOf(op, choice) : std::vector<int64_t>();
  if (auto it = known.find(key); isShared && it != known.end()) {
    apply(op, it->second);
    return success();
  }
  std::optional<OpPlan> best = bestPlan(op, choice);
  if (!best)
    return op->emitError("'")
           << op->getName() << "' cannot be split over " << mesh << ": " << why;
  OpTypes types = typesOf(op, *best);
  apply(op, types);
  if (isShared)
    known.try_emplace(std::move(key), std::move(types));
  return success();
}

LogicalResult Assigner::run() {
  if (failed(assignArguments()))
    return failure();
  reduceNarrowGradients();
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
    if (replaced.erase(op)) {
      op->erase();
      continue;
    }
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
                                   const LoweringSpec &degrees) {
  return Assigner(facts, choices, degrees).run();
}
