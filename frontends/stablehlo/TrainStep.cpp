//===- TrainStep.cpp - Conversion of a complete training step -------------===//
#include "frontends/emit/Loss.h"
#include "frontends/stablehlo/Arguments.h"

#include "ir/Attributes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend::hlo {

/// Whether an op can be in the update phase: it is elementwise on operands that
/// have the same sharding, or its result is a scalar.
static bool mayUpdate(Operation *op) {
  if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp, ConstantOp>(op))
    return true;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return broadcast.getX().getType().getRank() == 0;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getType().getRank() == 0;
  return false;
}

/// Marks ops as `update` if their results are only used by update ops or as
/// tied results, and all other ops as `forward`.
static void markPhases(func::FuncOp step) {
  Block &body = step.front();
  llvm::DenseSet<Operation *> updates;
  llvm::DenseSet<Value> tied;
  for (OpOperand &operand : body.getTerminator()->getOpOperands())
    if (step.getResultAttr(operand.getOperandNumber(), attr::kTies))
      tied.insert(operand.get());
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    bool serves = mayUpdate(&op) && !op.use_empty();
    for (Operation *user : op.getUsers())
      serves &= updates.contains(user) ||
                (user == body.getTerminator() &&
                 llvm::all_of(op.getResults(),
                              [&](Value v) { return tied.contains(v); }));
    if (serves)
      updates.insert(&op);
    setPhase(&op, serves ? Phase::update : Phase::forward);
  }
}

/// "opt.0.mu" for "opt.0.mu.dense.w", without the parameter's path.
static llvm::StringRef slotOf(const Argument &state) {
  llvm::StringRef slot = state.name;
  size_t dot = state.of.find('.');
  if (dot != std::string::npos)
    slot.consume_back(llvm::StringRef(state.of).substr(dot));
  return slot;
}

static void setRoles(func::FuncOp step, const Signature &signature,
                     const llvm::StringMap<unsigned> &places) {
  Builder b(step.getContext());
  for (const Argument &argument : signature.arguments) {
    if (argument.role != Argument::Role::state)
      continue;
    unsigned i = places.lookup(argument.name);
    step.setArgAttr(i, attr::kRole, b.getStringAttr(role::kState));
    step.setArgAttr(i, attr::kSlot, b.getStringAttr(slotOf(argument)));
    if (!argument.of.empty())
      step.setArgAttr(i, attr::kOf, b.getStringAttr(argument.of));
  }
}

static std::string lossName(const Signature &signature) {
  std::string name = "loss";
  while (llvm::any_of(signature.arguments, [&](const Argument &argument) {
    return argument.name == name;
  }))
    name += "_";
  return name;
}

/// Returns the result that the step reports as its loss: the one called "loss",
/// or else the first float scalar that is not the next value of an argument.
static std::optional<unsigned>
lossOf(func::FuncOp step, const llvm::StringMap<const Argument *> &nextOf) {
  std::optional<unsigned> loss;
  for (unsigned i : possibleLosses(step)) {
    auto name = step.getResultAttrOfType<StringAttr>(i, attr::kName).getValue();
    if (!nextOf.contains(name) && (!loss || name == "loss"))
      loss = i;
  }
  return loss;
}

void makeTrainStep(ModuleOp module, const Signature &signature) {
  auto step = module.lookupSymbol<func::FuncOp>("forward");
  Builder b(module.getContext());
  step.setName("train_step");
  module->setAttr(attr::kWholeStep, b.getUnitAttr());
  llvm::StringMap<unsigned> places;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    places[step.getArgAttrOfType<StringAttr>(i, attr::kName).getValue()] = i;
  setRoles(step, signature, places);
  llvm::StringMap<const Argument *> nextOf;
  for (const Argument &argument : signature.arguments)
    if (argument.next)
      nextOf[signature.results[*argument.next]] = &argument;
  std::optional<unsigned> loss = lossOf(step, nextOf);
  Operation *ret = step.front().getTerminator();
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attrs;
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    auto name = step.getResultAttrOfType<StringAttr>(i, attr::kName);
    Value value = ret->getOperand(i);
    NamedAttrList list;
    auto tied = nextOf.find(name.getValue());
    if (tied != nextOf.end()) {
      const std::string &of = tied->second->name;
      list.set(attr::kName, b.getStringAttr(of));
      list.set(attr::kTies, b.getI64IntegerAttr(places.lookup(of)));
    } else if (cast<RankedTensorType>(value.getType()).getRank() == 0) {
      bool isLoss = loss == i;
      list.set(attr::kName,
               isLoss ? b.getStringAttr(lossName(signature)) : name);
      if (isLoss)
        list.set(attr::kLoss, b.getUnitAttr());
    } else {
      emitRemark(step.getLoc(), "output ")
          << name << " is not returned by a training step: it is not a scalar";
      continue;
    }
    values.push_back(value);
    attrs.push_back(list.getDictionary(module.getContext()));
  }
  ret->setOperands(values);
  step.setType(b.getFunctionType(step.getArgumentTypes(),
                                 TypeRange(ValueRange(values))));
  step.setAllResultAttrs(attrs);
  markPhases(step);
}

} // namespace dpc::frontend::hlo
