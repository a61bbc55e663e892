//===- AssignArguments.cpp - Where arguments and results lie --------------===//
#include "passes/shard/Assigner.h"

using namespace mlir;
using namespace dpc;

ShardingSpec Assigner::argumentSpec(BlockArgument arg) {
  auto type = cast<RankedTensorType>(arg.getType());
  ShardingSpec spec = ShardingSpec::replicated(mesh, type.getShape());
  auto role =
      func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kRole);
  bool isInput = role && role.getValue() == role::kInput;
  AxisStates states(solvedAxes.size(), axis::replicated);
  if (auto found = choices.arguments.find(arg);
      found != choices.arguments.end())
    states = found->second;
  int64_t index = 0;
  bool batchDone = false, microBatchDone = !separatesMicroBatches();
  for (int64_t d = 0, e = type.getRank(); d < e; ++d) {
    DimFactors dim;
    for (int64_t size : facts.factors.factors(arg, d)) {
      Factor factor{size, {}};
      if (isInput && !batchDone &&
          facts.factors.classOf(arg, index) == facts.batchClass) {
        batchDone = true;
        factor.axes = batchAxes();
      } else if (isInput && !microBatchDone &&
                 facts.factors.classOf(arg, index) == facts.microBatchClass) {
        microBatchDone = true;
        factor.axes = {*mbAxis};
      }
      factor.axes.append(
          inOrder(facts.factors.classOf(arg, index), [&](size_t k) {
            return states[k] == axis::firstSplit + index;
          }));
      dim.push_back(factor);
      ++index;
    }
    if (!dim.empty())
      spec.dims[d] = canonicalize(mesh, dim);
  }
  return spec;
}

static bool isSplitOver(const ShardingSpec &spec, int64_t axis) {
  return llvm::any_of(spec.dims, [&](const DimFactors &dim) {
    return llvm::any_of(dim, [&](const Factor &factor) {
      return llvm::is_contained(factor.axes, axis);
    });
  });
}

/// `spec` also split over the axes of ZeRO that it is not split over yet (as
/// experts are over ep): on the factor that this pads least, the first of
/// equals. Unchanged where nothing has two elements.
ShardingSpec Assigner::splitOverData(ShardingSpec spec) const {
  SmallVector<int64_t, 2> axes;
  for (int64_t axis : zeroAxes)
    if (!isSplitOver(spec, axis))
      axes.push_back(axis);
  Factor *best = nullptr;
  double bestWaste = std::numeric_limits<double>::infinity();
  int64_t ranks = productOfAxes(mesh, axes);
  for (DimFactors &dim : spec.dims)
    for (Factor &factor : dim) {
      int64_t local = localFactorSize(mesh, factor.size, factor.axes);
      int64_t shard = localFactorSize(mesh, local, axes);
      double waste = double(shard * ranks) / local;
      if (local > 1 && waste < bestWaste) {
        best = &factor;
        bestWaste = waste;
      }
    }
  if (best)
    best->axes.append(axes);
  for (DimFactors &dim : spec.dims)
    dim = canonicalize(mesh, dim);
  return spec;
}

/// Stored split over dp, or a copy of what is (ZeRO-3): every phase gathers it
/// anew.
bool Assigner::isGatheredAtUse(Value value) const {
  return zero == 3 && (updateSpecs.count(value) || copies.contains(value));
}

static bool isHalf(Type elementType) {
  return elementType.isBF16() || elementType.isF16();
}

/// Makes the copy of a parameter that a model of mixed precision computes with:
/// each rank converts what it stores, and the copy is what is gathered.
bool Assigner::makesCopy(Operation *op) const {
  auto convert = dyn_cast<ConvertOp>(op);
  return convert && updateSpecs.count(convert.getX()) &&
         isHalf(convert.getResult().getType().getElementType());
}

/// Whether the model reads the parameter as a copy only. Then ZeRO stores each
/// element of the parameter itself once, from its first stage on.
bool Assigner::hasCopy(BlockArgument parameter) const {
  return llvm::all_of(parameter.getUsers(), [&](Operation *user) {
    auto convert = dyn_cast<ConvertOp>(user);
    return isa<AdamWOp, SgdOp>(user) ||
           (convert && isHalf(convert.getResult().getType().getElementType()));
  });
}

/// With one micro-batch the optimizer reads gradients of the compute type as
/// they are, so that they are stored and reduced in it. Sums over micro-batches
/// are in f32.
void Assigner::reduceNarrowGradients() {
  if (mbAxis)
    return;
  auto narrow = [](OpOperand &operand) {
    auto convert = operand.get().getDefiningOp<ConvertOp>();
    if (convert && isHalf(convert.getX().getType().getElementType()))
      operand.set(convert.getX());
  };
  func.walk([&](Operation *op) {
    if (auto adamw = dyn_cast<AdamWOp>(op))
      narrow(adamw.getGMutable());
    if (auto sgd = dyn_cast<SgdOp>(op))
      narrow(sgd.getGMutable());
    if (isa<GlobalNormOp>(op))
      for (OpOperand &operand : op->getOpOperands())
        narrow(operand);
  });
}

LogicalResult Assigner::assignArguments() {
  auto attrOf = [&](BlockArgument arg, StringRef name) {
    return func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), name);
  };
  auto assign = [](BlockArgument arg, const ShardingSpec &spec) {
    arg.setType(withSharding(cast<RankedTensorType>(arg.getType()), spec));
  };
  llvm::StringMap<BlockArgument> parameters;
  for (BlockArgument arg : func.getArguments()) {
    if (attrOf(arg, attr::kOf))
      continue;
    ShardingSpec spec = argumentSpec(arg);
    auto name = attrOf(arg, attr::kName), role = attrOf(arg, attr::kRole);
    if (role && role.getValue() == role::kParameter) {
      updateSpecs[arg] = zero ? splitOverData(spec) : spec;
      if (zero == 3 || (zero && hasCopy(arg)))
        spec = updateSpecs[arg];
      if (name)
        parameters[name.getValue()] = arg;
    }
    assign(arg, spec);
  }
  // States lie where their parameter is updated.
  for (BlockArgument arg : func.getArguments()) {
    auto of = attrOf(arg, attr::kOf);
    if (!of)
      continue;
    auto error = [&] {
      return emitError(func.getLoc(), "state ")
             << func.getArgAttr(arg.getArgNumber(), attr::kName)
             << " (argument " << arg.getArgNumber() << ") is of " << of;
    };
    BlockArgument parameter = parameters.lookup(of.getValue());
    if (!parameter)
      return error() << ", which is the name of no parameter";
    if (cast<RankedTensorType>(parameter.getType()).getShape() !=
        cast<RankedTensorType>(arg.getType()).getShape())
      return error() << ", a parameter of another shape";
    assign(arg, updateSpecs.at(parameter));
  }
  return success();
}

void Assigner::findParameterGradients() {
  func.walk([&](Operation *op) {
    if (auto adamw = dyn_cast<AdamWOp>(op))
      parameterOf[adamw.getG()] = dyn_cast<BlockArgument>(adamw.getP());
    if (auto sgd = dyn_cast<SgdOp>(op))
      parameterOf[sgd.getG()] = dyn_cast<BlockArgument>(sgd.getP());
  });
}

void Assigner::assignReturn(func::ReturnOp op) {
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    ShardingSpec to = actual(operand.get());
    to.partial.clear();
    if (auto tied = func.getResultAttrOfType<IntegerAttr>(i, attr::kTies))
      to = actual(func.getArgument(tied.getInt()));
    Operation *producer = operand.get().getDefiningOp();
    Attribute phase = producer ? producer->getAttr(attr::kPhase)
                               : phaseAttr(builder.getContext(), Phase::update);
    operand.set(reshard(builder, operand.get(), to, phase));
  }
  func.setType(FunctionType::get(func->getContext(),
                                 func.getBody().front().getArgumentTypes(),
                                 op.getOperandTypes()));
}
