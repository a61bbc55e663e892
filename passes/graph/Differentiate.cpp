//===- Differentiate.cpp - dpc-differentiate ------------------------------===//
#include "ir/StopGradient.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Autodiff.h"
#include "passes/graph/LossScale.h"
#include "passes/graph/Passes.h"
#include "passes/graph/RouterBiases.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCDIFFERENTIATE
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

/// As in PyTorch's clip_grad_norm_, clipping divides by the norm plus this.
static constexpr double kClipEpsilon = 1e-6;

namespace {

struct Settings {
  bool adamw;
  double beta1, beta2, eps, weightDecay, momentum, clipGradNorm;
  LossScaleSettings lossScale;

  SmallVector<StringRef> slots() const {
    if (adamw)
      return {"exp_avg", "exp_avg_sq"};
    if (momentum != 0.0)
      return {"momentum"};
    return {};
  }
};

struct Trained {
  unsigned argument; // of @train_step
  Value grad;
  SmallVector<unsigned, 2> states; // arguments of @train_step
};

class TrainStepBuilder {
public:
  TrainStepBuilder(func::FuncOp forward, Settings settings)
      : forward(forward), settings(settings), builder(forward),
        lossScale(settings.lossScale) {}

  /// On success, @forward may be erased.
  LogicalResult build();

private:
  LogicalResult findLoss();
  void addSampleMeans();
  LogicalResult findTrained();
  std::string namesOf(ArrayRef<unsigned> arguments);
  void remarkUnused(ArrayRef<unsigned> unmoved);
  void declare();
  void addArgument(Type type, ArrayRef<NamedAttribute> attrs);
  void addForwardArguments(StringRef role);
  void addStates();
  void addScalars();
  LogicalResult addGradients();
  void addNormAndScale();
  void addUpdates();
  void keepBuffers();
  void addReturn();
  void removeStops();
  void markPhase(Phase phase, Operation *after);
  StringAttr unusedName(unsigned argument);
  bool isStep(unsigned argument);
  StringAttr argName(unsigned argument) {
    return argumentAttrs[argument].getAs<StringAttr>(attr::kName);
  }
  NamedAttribute named(StringRef name, StringRef value) {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  }
  GraphBuilder graph() { return GraphBuilder(builder, step.getLoc()); }
  Operation *lastOp() {
    Block &body = step.front();
    return body.empty() ? nullptr : &body.back();
  }

  func::FuncOp forward, step;
  SmallVector<DictionaryAttr> argumentAttrs;
  Settings settings;
  OpBuilder builder;
  IRMapping mapping;
  unsigned lossIndex = 0;
  SmallVector<Trained> trained;
  /// Parameters that the loss does not depend on: `unused` has their indices in
  /// @forward, and `untrained` those in @train_step, which returns them
  /// unchanged.
  llvm::SmallSetVector<unsigned, 4> unused;
  SmallVector<unsigned> untrained;
  SmallVector<StringRef> roles; // indexed by argument of @forward
  PeeledLoss peeled;
  LossScale lossScale;
  Value lr, stepCount, gradNorm, scale;
  SmallVector<Value> newParams, newStates;
  DenseMap<unsigned, Value> newBuffers;
  ExpertBalance balance;
  /// By result of @forward: the mean of its values per sample.
  DenseMap<unsigned, Value> sampleMeans;
};

} // namespace

bool TrainStepBuilder::isStep(unsigned argument) {
  auto name = forward.getArgAttrOfType<StringAttr>(argument, attr::kName);
  return roleOf(forward.getArgument(argument)) == role::kScalar && name &&
         name.getValue() == "step";
}

/// Returns whether a result has one float value per sample.
static bool isPerSample(func::FuncOp forward, unsigned result) {
  auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[result]);
  return type && type.getRank() == 1 && isa<FloatType>(type.getElementType()) &&
         forward.getResultAttr(result, attr::kBatchDim);
}

/// Adds the means of outputs that have one value per sample.
void TrainStepBuilder::addSampleMeans() {
  GraphBuilder g = graph();
  Operation *ret = forward.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(ret->getOperands())) {
    if (forward.getResultAttr(index, attr::kTies) ||
        !isPerSample(forward, index))
      continue;
    auto count = static_cast<double>(shapeOf(value).front());
    // The sum of f16 values may exceed f16, but their mean does not.
    Type element = elementTypeOf(value);
    Value wide = g.convert(mapping.lookup(value), sumType(element));
    Value sum = g.reduceAll(ReduceKind::sum, wide);
    sampleMeans[index] = g.convert(g.scale(sum, 1 / count), element);
    forward.removeResultAttr(index, builder.getStringAttr(attr::kBatchDim));
  }
}

LogicalResult TrainStepBuilder::findLoss() {
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    if (!forward.getResultAttr(i, attr::kLoss))
      continue;
    auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[i]);
    if (!type || type.getRank() != 0 || !isFloatTensor(type))
      return emitError(forward.getLoc(),
                       "the loss must be a float scalar, not ")
             << forward.getResultTypes()[i];
    lossIndex = i;
    return success();
  }
  return emitError(forward.getLoc(),
                   "no result is marked as the loss: the model needs a "
                   "scalar float output, or --loss to append a loss");
}

StringAttr TrainStepBuilder::unusedName(unsigned argument) {
  std::string name = ("arg" + Twine(argument)).str();
  auto isTaken = [&](BlockArgument other) {
    auto taken =
        forward.getArgAttrOfType<StringAttr>(other.getArgNumber(), attr::kName);
    return taken && taken.getValue() == name;
  };
  while (llvm::any_of(forward.getArguments(), isTaken))
    name += "_";
  return builder.getStringAttr(name);
}

void TrainStepBuilder::addArgument(Type type, ArrayRef<NamedAttribute> attrs) {
  step.front().addArgument(type, step.getLoc());
  argumentAttrs.push_back(builder.getDictionaryAttr(attrs));
}

void TrainStepBuilder::addForwardArguments(StringRef role) {
  for (BlockArgument argument : forward.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (roles[index] != role)
      continue;
    NamedAttrList attrs(forward.getArgAttrDict(index));
    attrs.set(attr::kRole, builder.getStringAttr(role));
    attrs.erase(attr::kZeroGradient);
    ExpertBalance::unmark(attrs);
    if (!isa_and_present<StringAttr>(attrs.get(attr::kName)))
      attrs.set(attr::kName, unusedName(index));
    if (role == role::kParameter && unused.contains(index))
      untrained.push_back(step.front().getNumArguments());
    else if (role == role::kParameter)
      trained.push_back({step.front().getNumArguments(), Value(), {}});
    addArgument(argument.getType(), attrs);
    mapping.map(argument, step.getArguments().back());
  }
}

void TrainStepBuilder::addStates() {
  for (Trained &parameter : trained) {
    auto type = tensorType(step.getArgument(parameter.argument));
    Type element = statisticsType(type.getElementType());
    StringRef of = argName(parameter.argument).getValue();
    for (StringRef slot : settings.slots()) {
      parameter.states.push_back(step.front().getNumArguments());
      addArgument(RankedTensorType::get(type.getShape(), element),
                  {named(attr::kName, (of + "." + slot).str()),
                   named(attr::kRole, role::kState), named(attr::kOf, of),
                   named(attr::kSlot, slot)});
    }
  }
  for (ScalarState &state : lossScale.states()) {
    addArgument(RankedTensorType::get({}, builder.getF32Type()),
                {named(attr::kName, state.name),
                 named(attr::kRole, role::kState),
                 named(attr::kSlot, state.slot),
                 builder.getNamedAttr(attr::kInit,
                                      builder.getF64FloatAttr(state.initial))});
    state.value = step.getArguments().back();
  }
}

void TrainStepBuilder::addScalars() {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<NamedAttribute> attrs = {named(attr::kName, "lr"),
                                       named(attr::kRole, role::kScalar)};
  if (lossScale.isOn())
    attrs.push_back(named(attr::kSkips, LossScale::skippedName()));
  addArgument(type, attrs);
  addArgument(type,
              {named(attr::kName, "step"), named(attr::kRole, role::kScalar)});
  stepCount = step.getArguments().back();
  // The model uses the step number for dropout (emit/Dropout.h).
  for (BlockArgument argument : forward.getArguments())
    if (roles[argument.getArgNumber()] == role::kScalar)
      mapping.map(argument, stepCount);
  lr = step.getArgument(step.front().getNumArguments() - 2);
}

void TrainStepBuilder::declare() {
  step = func::FuncOp::create(builder, forward.getLoc(), kTrainStepFunction,
                              builder.getFunctionType({}, {}));
  step->setDiscardableAttrs(forward->getDiscardableAttrDictionary());
  step.addEntryBlock();
  addForwardArguments(role::kParameter);
  addForwardArguments(role::kBuffer);
  addStates();
  addForwardArguments(role::kInput);
  addScalars();
  step.setFunctionType(
      builder.getFunctionType(step.front().getArgumentTypes(), {}));
  step.setAllArgAttrs(argumentAttrs);
}

void TrainStepBuilder::markPhase(Phase phase, Operation *after) {
  Operation *op = after ? after->getNextNode() : &step.front().front();
  for (; op; op = op->getNextNode())
    setPhase(op, phase);
}

LogicalResult TrainStepBuilder::addGradients() {
  auto parameters =
      llvm::map_to_vector(trained, [&](const Trained &parameter) -> Value {
        return step.getArgument(parameter.argument);
      });
  Value loss =
      mapping.lookup(forward.front().getTerminator()->getOperand(lossIndex));
  peeled = peelLoss(loss, dependents(step.front(), parameters));
  Operation *last = lastOp();
  Value seed = lossScale.isOn() ? lossScale.seed(graph(), peeled)
                                : graph().constantLike(peeled.sum, peeled.seed);
  FailureOr<SmallVector<Value>> grads =
      buildGradients(builder, peeled.sum, seed, parameters);
  if (failed(grads))
    return failure();
  for (auto [parameter, grad] : llvm::zip(trained, *grads))
    // A gradient is null if the loss depends on the parameter only through ops
    // with zero derivatives (sign, floor, comparisons).
    parameter.grad =
        grad ? grad
             : graph().constantLike(step.getArgument(parameter.argument), 0.0);
  balance.count(graph(), forward, mapping);
  markPhase(Phase::backward, last);
  return success();
}

void TrainStepBuilder::addNormAndScale() {
  Type f32 = builder.getF32Type();
  auto scalarType = RankedTensorType::get({}, f32);
  auto grads = llvm::map_to_vector(
      trained, [](const Trained &parameter) { return parameter.grad; });
  scale = buildScale(graph(), peeled, f32);
  if (lossScale.isOn()) {
    Value divisor = lossScale.divisor(graph(), peeled);
    scale = scale ? graph().div(scale, divisor)
                  : graph().unary(UnaryKind::reciprocal, divisor);
  }
  gradNorm = GlobalNormOp::create(builder, step.getLoc(), scalarType, grads);
  if (scale)
    gradNorm = graph().mul(gradNorm, scale);
  else
    scale = graph().constant(scalarType, 1.0);
  if (lossScale.isOn()) {
    lossScale.decide(graph(), gradNorm);
    stepCount = lossScale.updates(graph(), stepCount);
  }
  if (settings.clipGradNorm <= 0.0)
    return;
  GraphBuilder g = graph();
  Value clip = g.div(g.constant(scalarType, settings.clipGradNorm),
                     g.add(gradNorm, g.constant(scalarType, kClipEpsilon)));
  scale = g.mul(
      scale, g.binary(BinaryKind::minimum, clip, g.constant(scalarType, 1.0)));
}

void TrainStepBuilder::addUpdates() {
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  for (Trained &parameter : trained) {
    Value p = step.getArgument(parameter.argument);
    auto state = [&](unsigned slot) {
      return step.getArgument(parameter.states[slot]);
    };
    if (settings.adamw) {
      Value m = state(0), v = state(1);
      auto update = AdamWOp::create(
          builder, step.getLoc(), p.getType(), m.getType(), v.getType(), p, m,
          v, parameter.grad, scale, lr, stepCount, lossScale.good,
          number(settings.beta1), number(settings.beta2), number(settings.eps),
          number(settings.weightDecay));
      newParams.push_back(update.getNewP());
      newStates.append({update.getNewM(), update.getNewV()});
      continue;
    }
    // Without momentum, the optimizer ignores the buffer operand. The gradient
    // is passed instead, so that no state is needed.
    Value buffer = parameter.states.empty() ? parameter.grad : state(0);
    auto update = SgdOp::create(
        builder, step.getLoc(), p.getType(), buffer.getType(), p, buffer,
        parameter.grad, scale, lr, stepCount, lossScale.good,
        number(settings.momentum), number(settings.weightDecay));
    newParams.push_back(update.getNewP());
    if (!parameter.states.empty())
      newStates.push_back(update.getNewBuffer());
  }
}

void TrainStepBuilder::keepBuffers() {
  Operation *ret = forward.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(ret->getOperands())) {
    auto tied = forward.getResultAttrOfType<IntegerAttr>(index, attr::kTies);
    if (!tied)
      continue;
    Value next = mapping.lookup(value);
    if (lossScale.isOn()) {
      Value old = mapping.lookup(forward.getArgument(tied.getInt()));
      GraphBuilder g = graph();
      next = g.select(g.broadcast(lossScale.good, shapeOf(old), {}), next, old);
    }
    newBuffers[index] = next;
  }
  balance.update(graph(), lossScale.good);
}

/// Returns `name` with as many "_" at its end as make it new in `taken`.
static StringAttr freeName(StringAttr name, llvm::StringSet<> &taken) {
  std::string made = name.getValue().str();
  while (!taken.insert(made).second)
    made += "_";
  return StringAttr::get(name.getContext(), made);
}

/// Adds the results whose values are not null.
static void addMetrics(ArrayRef<std::pair<StringRef, Value>> metrics,
                       SmallVector<Value> &results,
                       SmallVector<DictionaryAttr> &attrs) {
  for (auto [name, value] : metrics) {
    if (!value)
      continue;
    Builder b(value.getContext());
    results.push_back(value);
    attrs.push_back(b.getDictionaryAttr(
        {b.getNamedAttr(attr::kName, b.getStringAttr(name))}));
  }
}

void TrainStepBuilder::addReturn() {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attrs;
  auto tie = [&](Value value, unsigned argument) {
    results.push_back(value);
    attrs.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(attr::kName, argName(argument)),
         builder.getNamedAttr(attr::kTies,
                              builder.getI64IntegerAttr(argument))}));
  };
  for (auto [parameter, value] : llvm::zip(trained, newParams))
    tie(value, parameter.argument);
  for (unsigned argument : untrained)
    tie(step.getArgument(argument), argument);
  auto *state = newStates.begin();
  for (Trained &parameter : trained)
    for (unsigned argument : parameter.states)
      tie(*state++, argument);
  for (ScalarState &scalar : lossScale.states())
    tie(scalar.next, cast<BlockArgument>(scalar.value).getArgNumber());
  for (const BalancedBias &bias : balance.biases())
    tie(bias.next, bias.argument);
  llvm::StringSet<> taken = {"loss", "grad_norm", "loss_scale", "skipped",
                             "fullest_expert"};
  Operation *ret = forward.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(ret->getOperands())) {
    NamedAttrList resultAttrs(forward.getResultAttrDict(index));
    if (auto tied = resultAttrs.get(attr::kTies)) {
      Value buffer =
          mapping.lookup(forward.getArgument(cast<IntegerAttr>(tied).getInt()));
      tie(newBuffers.lookup(index), cast<BlockArgument>(buffer).getArgNumber());
      continue;
    }
    Value mean = sampleMeans.lookup(index);
    if (!mean && !shapeOf(value).empty()) {
      emitRemark(forward.getLoc(), "output ")
          << resultAttrs.get(attr::kName)
          << " is not returned by a training step: it is neither a scalar nor "
             "one value per sample";
      continue;
    }
    if (index == lossIndex)
      resultAttrs.set(attr::kName, builder.getStringAttr("loss"));
    else if (auto name =
                 dyn_cast_or_null<StringAttr>(resultAttrs.get(attr::kName)))
      resultAttrs.set(attr::kName, freeName(name, taken));
    results.push_back(mean ? mean : mapping.lookup(value));
    attrs.push_back(resultAttrs.getDictionary(builder.getContext()));
  }
  addMetrics(
      {{"grad_norm", gradNorm},
       {"fullest_expert", balance.fullest()},
       {"loss_scale", lossScale.isOn() ? lossScale.scale(graph()) : Value()},
       {"skipped", lossScale.skipped}},
      results, attrs);
  func::ReturnOp::create(builder, step.getLoc(), results);
  step.setType(builder.getFunctionType(step.getArgumentTypes(),
                                       TypeRange(ValueRange(results))));
  step.setAllResultAttrs(attrs);
}

/// "parameters 'a', 'b'"
std::string TrainStepBuilder::namesOf(ArrayRef<unsigned> arguments) {
  std::string names = arguments.size() == 1 ? "parameter" : "parameters";
  for (unsigned argument : arguments) {
    Attribute name = forward.getArgAttr(argument, attr::kName);
    if (!name)
      name = unusedName(argument);
    names += (argument == arguments.front() ? " '" : ", '") +
             cast<StringAttr>(name).getValue().str() + "'";
  }
  return names;
}

/// Says which parameters only weight decay changes, if anything. `unmoved`
/// reach the loss only through ops whose derivative is zero.
void TrainStepBuilder::remarkUnused(ArrayRef<unsigned> unmoved) {
  if (!unused.empty())
    emitWarning(forward.getLoc(), namesOf(unused.getArrayRef()))
        << (unused.size() == 1 ? " is" : " are")
        << " not trained, but saved: the loss does not depend on "
        << (unused.size() == 1 ? "it" : "them");
  if (!unmoved.empty())
    emitRemark(forward.getLoc(), namesOf(unmoved))
        << (unmoved.size() == 1 ? " has" : " have")
        << " the gradient 0, and change only by weight decay: the loss depends "
           "on "
        << (unmoved.size() == 1 ? "it" : "them")
        << " only through sign, round, floor, ceil or trunc";
}

/// Says why no gradient reaches a parameter of `forward`.
static std::string whyNothingTrains(func::FuncOp forward, Value loss) {
  DenseSet<Value> read = reachedFrom(loss, [](Operation *) { return false; });
  bool hasFrozen = false, hasParameters = false, isCut = false;
  for (BlockArgument argument : forward.getArguments()) {
    unsigned index = argument.getArgNumber();
    bool isParameter = roleOf(argument) == role::kParameter;
    hasFrozen |= forward.getArgAttr(index, attr::kFrozen) != nullptr;
    hasParameters |= isParameter;
    isCut |= isParameter && read.contains(argument);
  }
  if (!hasParameters)
    return hasFrozen ? "all parameters are frozen, by --frozen or by "
                       "requires_grad=False in the model"
                     : "the model has no parameters";
  return (isCut ? "detach or no_grad stops every gradient between the loss "
                  "and any parameter"
                : "the loss depends on no parameter") +
         std::string(hasFrozen ? " that is not frozen" : "");
}

LogicalResult TrainStepBuilder::findTrained() {
  Value loss = forward.front().getTerminator()->getOperand(lossIndex);
  DenseSet<Value> reached = reachedFrom(loss, stopsGradient);
  DenseSet<Value> moved = reachedFrom(loss, passesNoGradient);
  SmallVector<unsigned> unmoved;
  for (BlockArgument argument : forward.getArguments()) {
    unsigned index = argument.getArgNumber();
    StringRef role = roleOf(argument);
    if (role.empty())
      role = role::kInput;
    if (role != role::kParameter && role != role::kBuffer &&
        role != role::kInput && !isStep(index))
      return emitError(forward.getLoc(), "argument ")
             << index << " of @forward has role '" << role
             << "': expected parameter, buffer or input, or scalar if its name "
                "is 'step'";
    if (role == role::kParameter && !reached.contains(argument) &&
        !forward.getArgAttr(index, attr::kZeroGradient))
      unused.insert(index);
    if (role == role::kParameter && reached.contains(argument) &&
        !moved.contains(argument))
      unmoved.push_back(index);
    roles.push_back(role);
  }
  remarkUnused(unmoved);
  if (llvm::count(roles, role::kParameter) == int64_t(unused.size()))
    return emitError(forward.getLoc(), "nothing to train: ")
           << whyNothingTrains(forward, loss);
  return success();
}

/// Removes ops that stop the gradient. This leaves selects with equal operands,
/// which are also removed.
void TrainStepBuilder::removeStops() {
  auto replace = [](Operation &op, Value value) {
    op.getResult(0).replaceAllUsesWith(value);
    op.erase();
  };
  for (Operation &op : llvm::make_early_inc_range(step.front()))
    if (stopsGradient(&op))
      replace(op, op.getOperand(0));
    else if (auto select = dyn_cast<SelectOp>(op);
             select && select.getOnTrue() == select.getOnFalse())
      replace(op, select.getOnTrue());
}

LogicalResult TrainStepBuilder::build() {
  if (failed(findLoss()) || failed(findTrained()))
    return failure();
  declare();
  builder.setInsertionPointToEnd(&step.front());
  for (Operation &op : forward.front().without_terminator())
    builder.clone(op, mapping);
  addSampleMeans();
  if (lastOp())
    markPhase(Phase::forward, nullptr);
  if (failed(addGradients()))
    return failure();
  Operation *last = lastOp();
  addNormAndScale();
  addUpdates();
  keepBuffers();
  markPhase(Phase::update, last);
  addReturn();
  removeStops();
  return success();
}

namespace {
struct DifferentiatePass : dpc::impl::DpcDifferentiateBase<DifferentiatePass> {
  using DpcDifferentiateBase::DpcDifferentiateBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    DpcDifferentiateBase::getDependentDialects(registry);
    registerVjpModels(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (optimizer != "adamw" && optimizer != "sgd") {
      emitError(module.getLoc(), "unknown optimizer '")
          << optimizer << "': use adamw or sgd";
      return signalPassFailure();
    }
    auto forward = module.lookupSymbol<func::FuncOp>(kForwardFunction);
    if (!forward || forward.isExternal()) {
      emitError(module.getLoc(), "no function @forward to differentiate");
      return signalPassFailure();
    }
    bool adamw = optimizer == "adamw";
    double decay = weightDecay >= 0.0 ? weightDecay : adamw ? 0.01 : 0.0;
    TrainStepBuilder builder(forward, {adamw,
                                       beta1,
                                       beta2,
                                       eps,
                                       decay,
                                       momentum,
                                       clipGradNorm,
                                       {lossScale, lossScaleInterval}});
    if (failed(builder.build()))
      return signalPassFailure();
    forward.erase();
  }
};
} // namespace
