//===- AssignArguments.cpp - Shardings of arguments and results -----------===//
#include "passes/shard/Assignment.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

/// Returns the sharding of an argument before ZeRO shards it.
static ShardingSpec argumentSpec(const Assignment &state, BlockArgument arg) {
  const FactorAnalysis &factors = state.facts.factors;
  auto type = tensorType(arg);
  ShardingSpec spec = ShardingSpec::replicated(state.mesh, type.getShape());
  bool isInput = roleOfArgument(state.func, arg.getArgNumber()) == role::kInput;
  AxisStates states(state.solvedAxes.size(), axis::replicated);
  if (auto found = state.choices.arguments.find(arg);
      found != state.choices.arguments.end())
    states = found->second;
  int64_t index = 0;
  FactorAxes axes(state);
  for (int64_t d = 0, e = type.getRank(); d < e; ++d) {
    DimFactors dim;
    for (int64_t size : factors.factors(arg, d)) {
      auto isSplit = [&](size_t k) {
        return states[k] == axis::firstSplit + index;
      };
      dim.push_back(
          {size, axes.next(factors.classOf(arg, index), isInput, isSplit)});
      ++index;
    }
    if (!dim.empty())
      spec.dims[d] = canonicalize(state.mesh, dim);
  }
  return spec;
}

/// Splits `spec` over the ZeRO axes that do not split it yet (`ep` may already
/// split experts). They split the factor that needs the least padding, the
/// first on ties. Returns `spec` unchanged if every shard has only one element.
static ShardingSpec splitOverData(const Assignment &state, ShardingSpec spec) {
  auto axes = llvm::filter_to_vector<2>(
      state.zeroAxes, [&](int64_t axis) { return !spec.splitsAxis(axis); });
  Factor *best = nullptr;
  double bestWaste = std::numeric_limits<double>::infinity();
  int64_t ranks = productOfAxes(state.mesh, axes);
  for (DimFactors &dim : spec.dims)
    for (Factor &factor : dim) {
      int64_t local = localFactorSize(state.mesh, factor.size, factor.axes);
      int64_t shard = localFactorSize(state.mesh, local, axes);
      double waste = double(shard * ranks) / local;
      if (local > 1 && waste < bestWaste) {
        best = &factor;
        bestWaste = waste;
      }
    }
  if (best)
    best->axes.append(axes);
  for (DimFactors &dim : spec.dims)
    dim = canonicalize(state.mesh, dim);
  return spec;
}

bool dpc::isGatheredAtUse(const Assignment &state, Value value) {
  return state.zero == 3 &&
         (state.updateSpecs.count(value) || state.copies.contains(value));
}

static bool isHalf(Value value) {
  Type type = elementTypeOf(value);
  return type.isBF16() || type.isF16();
}

bool dpc::makesCopy(const Assignment &state, Operation *op) {
  auto convert = dyn_cast<ConvertOp>(op);
  return convert && state.updateSpecs.count(convert.getX()) &&
         isHalf(convert.getResult());
}

/// Returns true if the model reads the parameter only through copies in half
/// precision. ZeRO then shards the parameter from stage 1 on.
static bool hasCopy(BlockArgument parameter) {
  return llvm::all_of(parameter.getUsers(), [&](Operation *user) {
    return isa<AdamWOp, SgdOp>(user) ||
           (isa<ConvertOp>(user) && isHalf(user->getResult(0)));
  });
}

void dpc::findParameterGradients(Assignment &state) {
  auto skipConversion = [&](OpOperand &gradient) {
    auto convert = gradient.get().getDefiningOp<ConvertOp>();
    if (!state.microBatchAxis && convert && isHalf(convert.getX()))
      gradient.set(convert.getX());
  };
  auto find = [&](OpOperand &gradient, Value parameter) {
    skipConversion(gradient);
    state.parameterOf[gradient.get()] = dyn_cast<BlockArgument>(parameter);
  };
  state.func.walk([&](Operation *op) {
    if (auto adamw = dyn_cast<AdamWOp>(op))
      find(adamw.getGMutable(), adamw.getP());
    else if (auto sgd = dyn_cast<SgdOp>(op))
      find(sgd.getGMutable(), sgd.getP());
    else if (isa<GlobalNormOp>(op))
      llvm::for_each(op->getOpOperands(), skipConversion);
  });
}

LogicalResult dpc::assignArguments(Assignment &state) {
  func::FuncOp func = state.func;
  auto attrOf = [&](BlockArgument arg, StringRef name) {
    return func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), name);
  };
  auto assign = [](BlockArgument arg, const ShardingSpec &spec) {
    arg.setType(withSharding(tensorType(arg), spec));
  };
  llvm::StringMap<BlockArgument> parameters;
  for (BlockArgument arg : func.getArguments()) {
    if (attrOf(arg, attr::kOf))
      continue;
    ShardingSpec spec = argumentSpec(state, arg);
    if (roleOfArgument(func, arg.getArgNumber()) == role::kParameter) {
      ShardingSpec &update = state.updateSpecs[arg];
      update = state.zero ? splitOverData(state, spec) : spec;
      if (state.zero == 3 || (state.zero && hasCopy(arg)))
        spec = update;
      if (auto name = attrOf(arg, attr::kName))
        parameters[name.getValue()] = arg;
    }
    assign(arg, spec);
  }
  for (BlockArgument arg : func.getArguments()) {
    auto of = attrOf(arg, attr::kOf);
    if (!of)
      continue;
    auto error = [&] {
      return emitError(func.getLoc(), "state ")
             << func.getArgAttr(arg.getArgNumber(), attr::kName)
             << " (argument " << arg.getArgNumber() << ") belongs to " << of;
    };
    BlockArgument parameter = parameters.lookup(of.getValue());
    if (!parameter)
      return error() << ", but no parameter has this name";
    if (shapeOf(parameter) != shapeOf(arg))
      return error() << ", a parameter of another shape";
    assign(arg, state.updateSpecs.at(parameter));
  }
  return success();
}

void dpc::assignReturn(Assignment &state, func::ReturnOp op) {
  func::FuncOp func = state.func;
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands()) {
    ShardingSpec to = state.actual(operand.get());
    to.partial.clear();
    if (auto tied = func.getResultAttrOfType<IntegerAttr>(
            operand.getOperandNumber(), attr::kTies))
      to = state.actual(func.getArgument(tied.getInt()));
    Operation *producer = operand.get().getDefiningOp();
    Attribute phase = producer ? producer->getAttr(attr::kPhase)
                               : phaseAttr(builder.getContext(), Phase::update);
    operand.set(reshard(state, builder, operand.get(), to, phase));
  }
  func.setType(FunctionType::get(func->getContext(),
                                 func.getBody().front().getArgumentTypes(),
                                 op.getOperandTypes()));
}
