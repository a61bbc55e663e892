//===- PlanShardings.cpp - Shardings of model values in a plan ------------===//
#include "frontends/onnx/PlanShardings.h"

#include "frontends/onnx/ValueNames.h"
#include "ir/Attributes.h"

using namespace mlir;

namespace dpc::frontend {

static StringRef argumentName(func::FuncOp func, BlockArgument argument) {
  auto name =
      func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kName);
  return name ? name.getValue() : StringRef();
}

static StringRef nameOf(func::FuncOp func, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argumentName(func, argument);
  return valueNameOf(value.getLoc());
}

PlanShardings::PlanShardings(func::FuncOp sharded, func::FuncOp forward) {
  readProgram(sharded);
  follow(forward);
}

/// Records the shardings with which `op` reads values, after any reshards.
void PlanShardings::readOperands(Operation &op, func::FuncOp sharded) {
  StringRef reader = valueNameOf(op.getLoc());
  for (Value operand : op.getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    Value source = operand;
    while (auto reshard = source.getDefiningOp<ReshardOp>())
      source = reshard.getOperand();
    StringRef name = nameOf(sharded, source);
    if (!type || name.empty() || !getSharding(type))
      continue;
    byReader.try_emplace({reader.str(), name.str()}, type);
    // ZeRO can store a parameter with another sharding, so the sharding with
    // which the first op reads the parameter counts.
    if (isa<BlockArgument>(source) && byName[name].empty())
      byName[name].push_back(type);
  }
}

void PlanShardings::readProgram(func::FuncOp sharded) {
  for (Operation &op : sharded.getBody().front()) {
    if (isa<ReshardOp, func::ReturnOp>(op) || phaseOf(&op) != Phase::forward)
      continue;
    readOperands(op, sharded);
    StringRef name = valueNameOf(op.getLoc());
    for (Value result : op.getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType());
          type && getSharding(type) && !name.empty())
        byName[name].push_back(type);
    if (std::optional<int64_t> stage = stageOf(&op); stage && !name.empty())
      stageByName[name] = *stage;
  }
  for (Type type : sharded.getArgumentTypes())
    if (ShardingAttr sharding = getSharding(type))
      meshAttr = sharding.getMesh();
}

/// Derives factors of iteration dimensions from an operand's `spec` and adds
/// them to `known`. `map` lists the iteration dimensions per operand dimension.
static void learnFactors(const TensorMap &map, const ShardingSpec &spec,
                         const ShardingRule &rule,
                         llvm::DenseMap<int64_t, DimFactors> &known) {
  for (auto [dims, factors] : llvm::zip(map, spec.dims)) {
    llvm::SmallVector<int64_t> sizes;
    for (int64_t dim : dims)
      sizes.push_back(rule.dims[dim].size);
    if (sizes.empty())
      continue;
    auto pieces = splitFactors(spec.mesh, factors, sizes);
    for (auto [i, dim] : llvm::enumerate(dims))
      if (pieces)
        known.try_emplace(dim, (*pieces)[i]);
  }
}

/// Returns the sharding of `type` that follows from the factors of the
/// iteration dimensions.
static ShardingSpec fitted(MeshAttr mesh, RankedTensorType type,
                           const TensorMap &map,
                           const llvm::DenseMap<int64_t, DimFactors> &known) {
  ShardingSpec spec = ShardingSpec::replicated(mesh, type.getShape());
  for (auto [d, dims] : llvm::enumerate(map)) {
    DimFactors factors;
    bool isKnown = !dims.empty();
    for (int64_t dim : dims) {
      auto found = known.find(dim);
      isKnown &= found != known.end();
      if (isKnown)
        factors.append(found->second);
    }
    if (isKnown)
      spec.dims[d] = canonicalize(mesh, std::move(factors));
  }
  return spec;
}

/// Infers the shardings of the results. An operand without a known sharding
/// depends only on constants and gets the sharding that the op needs.
void PlanShardings::followOp(Operation &op) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled ||
      llvm::none_of(op.getOperands(), [&](Value v) { return specs.count(v); }))
    return;
  ShardingRule rule = ruled.getShardingRule();
  if (rule.combines)
    return;
  llvm::DenseMap<int64_t, DimFactors> known;
  for (auto [map, operand] : llvm::zip(rule.operands, op.getOperands()))
    if (auto found = specs.find(operand); found != specs.end())
      learnFactors(map, found->second, rule, known);
  std::vector<ShardingSpec> operands;
  for (auto [map, operand] : llvm::zip(rule.operands, op.getOperands())) {
    auto found = specs.find(operand);
    operands.push_back(found != specs.end()
                           ? found->second
                           : fitted(meshAttr,
                                    cast<RankedTensorType>(operand.getType()),
                                    map, known));
  }
  std::string why;
  auto results = inferResults(rule, meshAttr, operands, {}, why);
  if (!results)
    return; // the plan reshards operands, but it is unknown how
  for (auto [result, spec] : llvm::zip(op.getResults(), *results))
    specs.try_emplace(result, std::move(spec));
}

void PlanShardings::addStage(Operation &op) {
  auto own = stageByName.find(valueNameOf(op.getLoc()));
  std::optional<int64_t> stage;
  if (own != stageByName.end())
    stage = own->second;
  else
    for (Value operand : op.getOperands())
      if (auto found = stages.find(operand); found != stages.end())
        stage = std::max(stage.value_or(0), found->second);
  for (Value result : op.getResults())
    if (stage)
      stages[result] = *stage;
}

void PlanShardings::follow(func::FuncOp forward) {
  Block &body = forward.getBody().front();
  auto place = [&](Value value) {
    if (auto spec = made(nameOf(forward, value), value))
      specs[value] = *spec;
  };
  // The last op of a node computes its output; values of earlier ops are not in
  // the model.
  llvm::StringMap<Operation *> last;
  for (Operation &op : body)
    last[valueNameOf(op.getLoc())] = &op;
  for (BlockArgument argument : forward.getArguments())
    place(argument);
  for (Operation &op : body) {
    if (op.getNumResults() && last.lookup(valueNameOf(op.getLoc())) == &op)
      for (Value result : op.getResults())
        place(result);
    followOp(op);
    addStage(op);
  }
}

std::optional<ShardingSpec> PlanShardings::made(StringRef name,
                                                Value value) const {
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : nullptr;
  if (!type)
    return std::nullopt;
  if (auto found = byName.find(name); found != byName.end())
    for (RankedTensorType candidate : llvm::reverse(found->second))
      if (candidate.getShape() == type.getShape())
        return ShardingSpec::get(candidate);
  auto found = specs.find(value);
  return found == specs.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ShardingSpec>
PlanShardings::read(StringRef reader, StringRef name, Value value) const {
  auto found = byReader.find({reader.str(), name.str()});
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : nullptr;
  std::optional<ShardingSpec> spec;
  if (found != byReader.end() && type &&
      found->second.getShape() == type.getShape())
    spec = ShardingSpec::get(found->second);
  else
    spec = made(name, value);
  if (spec)
    spec->partial.clear();
  return spec;
}

std::optional<int64_t> PlanShardings::stage(Value value) const {
  auto found = stages.find(value);
  return found == stages.end() ? std::nullopt : std::optional(found->second);
}

} // namespace dpc::frontend
