//===- Assign.cpp - Writes shardings into types ---------------------------===//
#include "passes/shard/Assign.h"

#include "passes/cost/OpTime.h"
#include "passes/shard/Assignment.h"
#include "passes/shard/LoweringSpec.h"
#include "passes/shard/ReshardPlan.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace dpc;

using Axes = Assignment::Axes;

Assignment::Assignment(const ProgramFacts &facts, const ShardChoices &choices,
                       const LoweringSpec &spec)
    : facts(facts), choices(choices), func(facts.func),
      mesh(meshFor(func->getContext(), spec)),
      microBatchAxis(mesh.findAxis(kMicroBatchAxis)) {
  for (auto [i, axis] : llvm::enumerate(axesOf(spec))) {
    bool isOuter = isHybrid(spec) && axis.name == "dp";
    bool shares = axis.role == AxisRole::data ||
                  axis.role == AxisRole::expert ||
                  axis.role == AxisRole::sequence;
    if (axis.role == AxisRole::data)
      dataAxes.push_back(i);
    if (shares && !isOuter)
      zeroAxes.push_back(i);
  }
  // The axis inside a node comes first, so that only shards leave the node.
  std::reverse(zeroAxes.begin(), zeroAxes.end());
  if (!zeroAxes.empty())
    zero = spec.zero;
  Builder builder(func->getContext());
  if (!spec.compressGradients.empty())
    gradientCompression = builder.getStringAttr(spec.compressGradients);
  if (!spec.compressWeights.empty())
    weightCompression = builder.getStringAttr(spec.compressWeights);
  for (const MeshAxis &axis : choices.axes)
    solvedAxes.push_back(*mesh.findAxis(axis.name));
}

bool Assignment::separatesMicroBatches() const {
  return microBatchAxis && !dataAxes.empty() && facts.microBatchClass >= 0 &&
         facts.batchFactor == productOfAxes(mesh, dataAxes);
}

const ShardingSpec &Assignment::actual(Type type) const {
  auto [it, isNew] = specs.try_emplace(type);
  if (isNew)
    it->second = std::make_unique<ShardingSpec>(
        *ShardingSpec::get(cast<RankedTensorType>(type)));
  return *it->second;
}

int64_t Assignment::localBytes(Type type) {
  auto [it, isNew] = bytes.try_emplace(type);
  if (isNew)
    it->second = sizeInBytes(localType(cast<RankedTensorType>(type)));
  return it->second;
}

static Axes batchAxes(const Assignment &state) {
  Axes axes = state.dataAxes;
  if (state.microBatchAxis && !state.separatesMicroBatches())
    axes.push_back(*state.microBatchAxis);
  return axes;
}

Axes FactorAxes::next(int64_t factorClass, bool takesBatch,
                      llvm::function_ref<bool(size_t)> isSplit) {
  const ProgramFacts &facts = state.facts;
  Axes axes, solved;
  if (takesBatch && !batchDone && factorClass == facts.batchClass) {
    batchDone = true;
    axes = batchAxes(state);
  } else if (takesBatch && !microBatchDone &&
             factorClass == facts.microBatchClass) {
    microBatchDone = true;
    axes = {*state.microBatchAxis};
  }
  bool along = facts.sequenceClasses.contains(factorClass);
  for (auto [k, axis] : llvm::enumerate(state.solvedAxes)) {
    if (!isSplit(k))
      continue;
    bool first = along && state.choices.axes[k].role == AxisRole::sequence;
    solved.insert(first ? solved.begin() : solved.end(), axis);
  }
  axes.append(solved);
  return axes;
}

struct OpPlan {
  std::vector<ShardingSpec> operands, results;
  double bytes = 0; ///< Bytes that one rank sends for the reshards.
};

/// Returns the choice for a gradient op, which splits the factor of the same
/// class as the forward op.
static AxisChoice gradientChoice(const FactorAnalysis &factors, Operation *op,
                                 Operation *forward, const AxisChoice &choice) {
  if (choice.kind == AxisChoice::replicate)
    return choice;
  std::optional<IterFactor> factor;
  if (choice.kind == AxisChoice::split)
    factor = factors.splittable(op, factors.classOf(forward, choice.factor));
  return factor ? AxisChoice{AxisChoice::split, *factor}
                : AxisChoice{AxisChoice::gradPartial};
}

static AxisChoices everywhere(const Assignment &state, AxisChoice::Kind kind) {
  return AxisChoices(state.solvedAxes.size(), AxisChoice{kind});
}

/// For a gradient op, derives the choices from those for its forward op.
static std::optional<AxisChoices> decided(const Assignment &state,
                                          Operation *op) {
  const ProgramFacts &facts = state.facts;
  auto chosen = state.choices.ops.find(op);
  if (chosen != state.choices.ops.end())
    return chosen->second;
  auto forward = facts.forwardOf.find(op);
  if (forward == facts.forwardOf.end())
    return std::nullopt;
  auto found = state.choices.ops.find(forward->second);
  if (found == state.choices.ops.end())
    return everywhere(state, AxisChoice::replicate);
  AxisChoices result;
  for (const AxisChoice &choice : found->second)
    result.push_back(
        gradientChoice(facts.factors, op, forward->second, choice));
  return result;
}

static std::vector<DimFactors>
iterSplits(const Assignment &state, Operation *op, const AxisChoices &choice) {
  const FactorAnalysis &factors = state.facts.factors;
  // A parameter, its states, gradient and copies have the same sharding.
  if (isa<AdamWOp, SgdOp>(op) || makesCopy(state, op)) {
    Value parameter = op->getOperand(0);
    auto update = state.updateSpecs.find(parameter);
    bool isUpdate = isa<AdamWOp, SgdOp>(op);
    const ShardingSpec &spec = isUpdate && update != state.updateSpecs.end()
                                   ? update->second
                                   : state.actual(parameter);
    return {spec.dims.begin(), spec.dims.end()};
  }
  const ShardingRule &rule = factors.rule(op);
  std::vector<DimFactors> splits;
  FactorAxes axes(state);
  for (int64_t d = 0, e = rule.dims.size(); d < e; ++d) {
    DimFactors dim;
    for (auto [f, size] : llvm::enumerate(factors.factors(op, d))) {
      IterFactor id{d, static_cast<int64_t>(f)};
      auto isSplit = [&](size_t k) {
        return choice[k].kind == AxisChoice::split && choice[k].factor == id;
      };
      dim.push_back({size, axes.next(factors.classOf(op, id),
                                     factors.canSplit(op, id), isSplit)});
    }
    if (dim.empty())
      dim.push_back({rule.dims[d].size, {}});
    splits.push_back(canonicalize(state.mesh, dim));
  }
  return splits;
}

/// Returns the sharding of `tensor`. `splits` has the factors of each iteration
/// dimension, and `map` has the iteration dimensions of each tensor dimension.
static ShardingSpec specFor(MeshAttr mesh, const TensorMap &map, Value tensor,
                            const std::vector<DimFactors> &splits) {
  ShardingSpec spec = ShardingSpec::replicated(mesh, shapeOf(tensor));
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

/// Returns true if a gradient op reads a partial sum over the batch. The op is
/// then on the path to the gradient of a parameter.
static bool leadsToParameter(const Assignment &state, Operation *op) {
  if (!state.facts.forwardOf.contains(op))
    return false;
  Axes axes = batchAxes(state);
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    const ShardingSpec &spec = state.actual(operand);
    return llvm::any_of(
        axes, [&](int64_t axis) { return spec.partialOver(axis).has_value(); });
  });
}

/// Returns `value` after a reduction that another reader needs and that
/// resharding `value` to `spec` needs, too; null without one.
static Value reducedFor(const Assignment &state, Value value,
                        const ShardingSpec &spec) {
  auto found = state.reduced.find(value);
  if (found == state.reduced.end())
    return Value();
  for (Value reduced : found->second) {
    const ShardingSpec &its = state.actual(reduced);
    if (its.partial == spec.partial && its.routed == spec.routed &&
        (its.dims == spec.dims || its.dims == state.actual(value).dims))
      return reduced;
  }
  return Value();
}

static int64_t localElements(const ShardingSpec &spec) {
  return ShapedType::getNumElements(spec.localShape());
}

/// Keeps operands partial if the op is linear in them, because one reduction at
/// the end is cheaper than many earlier ones. If all ranks of an axis repeat
/// the op, its operands must be complete over this axis. They are completed,
/// too, if each was already reduced for an earlier reader or must be gathered,
/// because a reduction moves less before a gather. The gradient of a copied
/// parameter (in half precision, or transposed) is an exception: it is summed
/// over all axes at once, after the last micro-batch.
static void keepPartials(const Assignment &state, Operation *op,
                         const AxisChoices &choice,
                         const std::vector<DimFactors> &splits, OpPlan &plan) {
  const ShardingRule &rule = state.facts.factors.rule(op);
  llvm::SmallSet<int64_t, 4> used;
  for (const DimFactors &dim : splits)
    for (const Factor &factor : dim)
      used.insert(factor.axes.begin(), factor.axes.end());
  bool waits = leadsToParameter(state, op);
  auto isReplicated = [&](int64_t axis) {
    if (waits)
      return false;
    auto found = llvm::find(state.solvedAxes, axis);
    return found != state.solvedAxes.end() &&
           choice[found - state.solvedAxes.begin()].kind ==
               AxisChoice::replicate;
  };
  for (int64_t axis = 0, e = state.mesh.getNames().size(); axis < e; ++axis) {
    if (used.contains(axis) || isReplicated(axis))
      continue;
    Axes holders;
    ReduceKind kind = ReduceKind::sum;
    bool sums = true;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (auto found = state.actual(operand).partialOver(axis)) {
        holders.push_back(i);
        kind = *found;
        sums &= kind == ReduceKind::sum;
      }
    // If another operand is complete only after the last micro-batch, the op
    // waits for it and runs once, on the sums.
    auto isLateOther = [&](auto operand) {
      return !llvm::is_contained(holders, operand.index()) &&
             state.late.contains(operand.value());
    };
    bool runsLate =
        axis == state.microBatchAxis &&
        llvm::any_of(llvm::enumerate(op->getOperands()), isLateOther);
    if (holders.empty() || runsLate)
      continue;
    bool isSolved = llvm::is_contained(state.solvedAxes, axis);
    if (isSolved && !waits && llvm::all_of(holders, [&](int64_t i) {
          Value operand = op->getOperand(i);
          return reducedFor(state, operand, plan.operands[i]) ||
                 localElements(plan.operands[i]) >
                     localElements(state.actual(operand));
        }))
      continue;
    bool moved = rule.movesData && holders == Axes{0};
    if (moved || (sums && llvm::is_contained(rule.linear, holders)))
      for (int64_t i : holders)
        plan.operands[i].partial.push_back({axis, kind});
  }
}

/// Says why `op` needs the samples of all micro-batches.
static std::string whyWhole(const FactorAnalysis &factors, Operation *op) {
  for (size_t dim = 0; dim < factors.rule(op).dims.size(); ++dim)
    if (factors.isBlocked(op, dim))
      return "reshapes cut its dimensions at places that do not fit together, "
             "so that it needs the whole batch";
  return "it reads the whole batch";
}

/// If the op cannot be split so, returns nullopt and sets `state.why`.
static std::optional<OpPlan> planOp(Assignment &state, Operation *op,
                                    const AxisChoices &choice) {
  const ShardingRule &rule = state.facts.factors.rule(op);
  std::vector<DimFactors> splits = iterSplits(state, op, choice);
  OpPlan plan;
  for (auto [map, operand] : llvm::zip(rule.operands, op->getOperands())) {
    if (!rule.combines) {
      plan.operands.push_back(specFor(state.mesh, map, operand, splits));
      continue;
    }
    // The op accepts any sharding. A gradient gets the sharding of the update.
    BlockArgument parameter = state.parameterOf.lookup(operand);
    ShardingSpec spec =
        parameter ? state.updateSpecs.at(parameter) : state.actual(operand);
    spec.partial.clear();
    plan.operands.push_back(spec);
  }
  for (auto [spec, operand] : llvm::zip(plan.operands, op->getOperands()))
    spec.routed = state.actual(operand).routed;
  if (!rule.combines)
    keepPartials(state, op, choice, splits, plan);
  std::vector<ShardingSpec> hints;
  for (auto [map, result] : llvm::zip(rule.results, op->getResults()))
    hints.push_back(specFor(state.mesh, map, result, splits));
  auto results =
      inferResults(rule, state.mesh, plan.operands, hints, state.why);
  if (!results)
    return std::nullopt;
  plan.results = std::move(*results);
  for (auto [wanted, operand] : llvm::zip(plan.operands, op->getOperands())) {
    if (isSamePlacement(state.actual(operand), wanted))
      continue;
    auto bytes =
        reshardBytes(state.actual(operand), wanted, elementBytes(operand));
    if (!bytes) {
      state.why = whyWhole(state.facts.factors, op) +
                  ", which micro-batches split; set micro_batch= to the whole "
                  "batch of a rank";
      return std::nullopt;
    }
    plan.bytes += *bytes;
  }
  return plan;
}

/// Returns the plan that sends the fewest bytes, for an op that the search does
/// not decide. Axes are chosen one after the other.
static std::optional<OpPlan> cheapestPlan(Assignment &state, Operation *op) {
  const FactorAnalysis &factors = state.facts.factors;
  AxisChoices best = everywhere(state, AxisChoice::gradPartial);
  std::optional<OpPlan> bestPlan = planOp(state, op, best);
  // The choice does not affect the shardings of these ops.
  if (isa<AdamWOp, SgdOp>(op) || factors.rule(op).combines)
    return bestPlan;
  for (size_t k = 0; k < state.solvedAxes.size(); ++k) {
    SmallVector<AxisChoice> all;
    for (IterFactor factor : factors.splittable(op))
      all.push_back({AxisChoice::split, factor});
    all.push_back(AxisChoice{});
    for (const AxisChoice &choice : all) {
      AxisChoices changed = best;
      changed[k] = choice;
      std::optional<OpPlan> found = planOp(state, op, changed);
      if (!found || (bestPlan && found->bytes >= bestPlan->bytes))
        continue;
      best = changed;
      bestPlan = std::move(found);
    }
  }
  return bestPlan ? bestPlan
                  : planOp(state, op, everywhere(state, AxisChoice::replicate));
}

/// For an op that does not combine its operands, returns a key of all
/// properties that determine its plan: the rule, its factors and the kinds of
/// their classes, the shardings of the operands, and the choice.
static std::vector<int64_t> keyOf(const Assignment &state, Operation *op,
                                  const std::optional<AxisChoices> &choice) {
  const ProgramFacts &facts = state.facts;
  std::vector<int64_t> key;
  key.reserve(128);
  auto add = [&](int64_t value) { key.push_back(value); };
  auto addPointer = [&](auto value) {
    key.push_back(reinterpret_cast<intptr_t>(value.getAsOpaquePointer()));
  };
  auto addMap = [&](const TensorMap &map) {
    for (const DimMap &dims : map) {
      add(-1 - static_cast<int64_t>(dims.size()));
      key.insert(key.end(), dims.begin(), dims.end());
    }
  };
  llvm::for_each(op->getOperandTypes(), addPointer);
  addPointer(op->getName());
  llvm::for_each(op->getResultTypes(), addPointer);
  if (isa<AdamWOp, SgdOp>(op))
    if (auto it = state.updateSpecs.find(op->getOperand(0));
        it != state.updateSpecs.end())
      addPointer(it->second.toAttr());
  add(makesCopy(state, op));
  add(leadsToParameter(state, op));
  for (Value operand : op->getOperands()) {
    add(state.late.contains(operand));
    if (auto it = state.reduced.find(operand); it != state.reduced.end())
      for (Value reduced : it->second)
        addPointer(reduced.getType());
    add(-1);
  }
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
  add(rule.experts);
  add(rule.routes);
  llvm::for_each(rule.operands, addMap);
  llvm::for_each(rule.results, addMap);
  for (const auto &group : rule.linear) {
    add(-1);
    key.insert(key.end(), group.begin(), group.end());
  }
  return key;
}

Value dpc::reshard(Assignment &state, OpBuilder &builder, Value value,
                   const ShardingSpec &to, Attribute phase) {
  if (isSamePlacement(state.actual(value), to))
    return value;
  return reshard(state, builder, value, withSharding(tensorType(value), to),
                 phase);
}

Value dpc::reshard(Assignment &state, OpBuilder &builder, Value value,
                   RankedTensorType to, Attribute phase) {
  if (value.getType() == to)
    return value;
  bool atUse = isGatheredAtUse(state, value);
  std::pair key(value,
                std::pair(to.getEncoding(), atUse ? phase : Attribute()));
  if (Value made = state.reshards.lookup(key))
    return made;
  const ShardingSpec &wanted = state.actual(to);
  auto constant = value.getDefiningOp<ConstantOp>();
  if (constant && constant.getValue().isSplat() && wanted.partial.empty()) {
    // Every part of a constant of equal elements is a constant.
    Operation *part = builder.clone(*constant);
    part->getResult(0).setType(to);
    if (phase)
      part->setAttr(attr::kPhase, phase);
    return state.reshards[key] = part->getResult(0);
  }
  if (Value reduced = reducedFor(state, value, wanted); reduced && !atUse)
    return state.reshards[key] = reshard(state, builder, reduced, to, phase);
  auto op = ReshardOp::create(builder, value.getLoc(), to, value);
  if (phase)
    op->setAttr(attr::kPhase, phase);
  if (atUse)
    op->setAttr(attr::kAtUse, builder.getUnitAttr());
  if (atUse && state.weightCompression)
    op->setAttr(attr::kCompress, state.weightCompression);
  // A reshard that makes the value smaller runs on the stage of the producer,
  // before the value is sent. Other reshards run on the stages of the readers.
  Operation *producer = value.getDefiningOp();
  Attribute stage = producer ? producer->getAttr(attr::kStage) : Attribute();
  if (stage && state.localBytes(to) <= state.localBytes(value.getType()))
    op->setAttr(attr::kStage, stage);
  auto isPartial = [&](Value one) {
    return state.actual(one).partialOver(*state.microBatchAxis).has_value();
  };
  bool accumulates =
      state.microBatchAxis && isPartial(value) && !isPartial(op.getResult());
  if (accumulates || state.late.contains(value))
    state.late.insert(op.getResult());
  if (!atUse && state.actual(value).partial != wanted.partial)
    state.reduced[value].push_back(op.getResult());
  return state.reshards[key] = op.getResult();
}

static void compressReduction(Assignment &state, Value gradient, Value reduced,
                              BlockArgument parameter) {
  if (!state.gradientCompression || reduced == gradient)
    return;
  Operation *op = reduced.getDefiningOp();
  op->setAttr(attr::kCompress, state.gradientCompression);
  // The residual of topk is a state of this parameter.
  if (topkShare(cast<StringAttr>(state.gradientCompression).getValue()))
    op->setAttr(attr::kOf,
                state.func.getArgAttr(parameter.getArgNumber(), attr::kName));
}

void dpc::reshardGradient(Assignment &state, OpBuilder &builder, Value gradient,
                          BlockArgument parameter, Attribute phase) {
  const ShardingSpec &target = state.updateSpecs.at(parameter);
  std::optional<ReduceKind> pending;
  if (state.microBatchAxis)
    pending = state.actual(gradient).partialOver(*state.microBatchAxis);
  if (state.zero < 2 || !pending)
    return compressReduction(state, gradient,
                             reshard(state, builder, gradient, target, phase),
                             parameter);
  ShardingSpec scattered = target;
  scattered.partial.push_back({*state.microBatchAxis, *pending});
  Value shard = reshard(state, builder, gradient, scattered, phase);
  compressReduction(state, gradient, shard, parameter);
  Value done = reshard(state, builder, shard, target, phase);
  state.reshards[{gradient, {target.toAttr(), Attribute()}}] = done;
}

static OpTypes typesOf(const Assignment &state, Operation *op,
                       const OpPlan &plan) {
  OpTypes types;
  for (auto [operand, wanted] : llvm::zip(op->getOperands(), plan.operands))
    types.operands.push_back(isSamePlacement(state.actual(operand), wanted)
                                 ? RankedTensorType()
                                 : withSharding(tensorType(operand), wanted));
  for (auto [result, spec] : llvm::zip(op->getResults(), plan.results))
    types.results.push_back(withSharding(tensorType(result), spec));
  return types;
}

static void apply(Assignment &state, Operation *op, const OpTypes &types) {
  OpBuilder builder(op);
  Attribute phase = op->getAttr(attr::kPhase);
  for (auto [operand, type] : llvm::zip(op->getOpOperands(), types.operands))
    if (type)
      operand.set(reshard(state, builder, operand.get(), type, phase));
  bool anyLate = state.isLate(op->getOperands());
  builder.setInsertionPointAfter(op);
  if (makesCopy(state, op))
    state.copies.insert(op->getResult(0));
  for (auto [result, type] : llvm::zip(op->getResults(), types.results)) {
    result.setType(type);
    if (anyLate)
      state.late.insert(result);
    if (BlockArgument parameter = state.parameterOf.lookup(result))
      reshardGradient(state, builder, result, parameter, phase);
  }
}

static LogicalResult assignOp(Assignment &state, Operation *op) {
  if (!state.facts.factors.hasRule(op))
    return op->emitError("'") << op->getName() << "' has no sharding rule";
  std::optional<AxisChoices> choice = decided(state, op);
  bool isShared = !state.facts.factors.rule(op).combines;
  std::vector<int64_t> key =
      isShared ? keyOf(state, op, choice) : std::vector<int64_t>();
  if (auto it = state.known.find(key); isShared && it != state.known.end()) {
    apply(state, op, it->second);
    return success();
  }
  std::optional<OpPlan> best;
  if (choice)
    best = planOp(state, op, *choice);
  if (!best)
    best = cheapestPlan(state, op);
  if (!best)
    return op->emitError("'") << op->getName() << "' cannot be split over "
                              << state.mesh << ": " << state.why;
  OpTypes types = typesOf(state, op, *best);
  apply(state, op, types);
  if (isShared)
    state.known.try_emplace(std::move(key), std::move(types));
  return success();
}

LogicalResult dpc::assignShardings(const ProgramFacts &facts,
                                   const ShardChoices &choices,
                                   const LoweringSpec &spec) {
  Assignment state(facts, choices, spec);
  if (failed(assignArguments(state)))
    return failure();
  findParameterGradients(state);
  SmallVector<Operation *> ops =
      llvm::to_vector(llvm::make_pointer_range(state.func.getBody().front()));
  for (Operation *op : ops) {
    if (isInnerSum(op))
      continue;
    if (auto ret = dyn_cast<func::ReturnOp>(op))
      assignReturn(state, ret);
    else if (state.replaced.erase(op))
      op->erase();
    else if (isGradientSum(op))
      assignGradientSum(state, cast<BinaryOp>(op));
    else if (failed(assignOp(state, op)))
      return failure();
  }
  return success();
}
