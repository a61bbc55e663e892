//===- ProgramFacts.cpp - What sharding must know about a program ---------===//
#include "passes/graph/Autodiff.h"
#include "passes/shard/StrategyGraph.h"

using namespace mlir;
using namespace dpc;

static StringRef roleOf(func::FuncOp func, BlockArgument arg) {
  auto role =
      func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kRole);
  return role ? role.getValue() : StringRef();
}

void dpc::markRings(func::FuncOp func, const ShardDegrees &degrees) {
  if (degrees.cp == 1 || degrees.cpKind != CpKind::ring)
    return;
  func.walk([](Operation *op) {
    if (!isa<AttentionOp, AttentionGradOp>(op))
      return;
    auto positions = [&](unsigned operand) {
      auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
      return type.getDimSize(2);
    };
    // Queries of another length than the keys stay, and gather keys and values.
    if (positions(0) == positions(1))
      op->setAttr(attr::kRing, UnitAttr::get(op->getContext()));
  });
}

ProgramFacts::ProgramFacts(func::FuncOp func) : func(func), factors(func) {
  findInputs();
  findHidden();
  SmallVector<Value> parameters;
  for (BlockArgument arg : func.getArguments())
    if (roleOf(func, arg) == role::kParameter)
      parameters.push_back(arg);
  // Without a gradient phase (inference) nothing has a gradient.
  findGroups();
  if (!forwardOf.empty())
    active = dependents(func.getBody().front(), parameters);
  findWeights();
}

void ProgramFacts::findInputs() {
  for (BlockArgument arg : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!type || roleOf(func, arg) != role::kInput)
      continue;
    auto batchDim =
        func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), attr::kBatchDim);
    int64_t index = 0;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      for (size_t i = 0; i < factors.factors(arg, dim).size(); ++i, ++index) {
        int64_t cls = factors.classOf(arg, index);
        if (batchDim && dim == batchDim.getInt()) {
          globalBatch = type.getDimSize(dim);
          // A batch seen as several factors is split on the outermost.
          if (i == 0 && batchClass < 0) {
            batchClass = cls;
            batchFactor = factors.factors(arg, dim).front();
          } else if (i == 1 && microBatchClass < 0) {
            microBatchClass = cls;
          }
        } else if (type.getElementType().isInteger()) {
          sequenceClasses.insert(cls);
        }
      }
  }
  sequenceClasses.erase(batchClass);
}

void ProgramFacts::findHidden() {
  func.walk([&](NormOp op) {
    int64_t last = op.getX().getType().getRank() - 1;
    int64_t count = factors.numFactors(op.getX());
    int64_t own = factors.factors(op.getX(), last).size();
    for (int64_t i = count - own; i < count; ++i)
      hiddenClasses.insert(factors.classOf(op.getX(), i));
  });
}

void ProgramFacts::findGroups() {
  // The op that moves most bytes stands for a group with several forward ops
  // (an expanded cross entropy).
  llvm::DenseMap<int64_t, Operation *> leaders;
  llvm::DenseMap<int64_t, double> weight;
  Block &block = func.getBody().front();
  for (Operation &op : block) {
    auto group = op.getAttrOfType<IntegerAttr>(attr::kGroup);
    if (!group || !isForward(&op))
      continue;
    double bytes = detail::operandAndResultBytes(&op);
    if (bytes >= weight[group.getInt()]) {
      weight[group.getInt()] = bytes;
      leaders[group.getInt()] = &op;
    }
  }
  for (Operation &op : block) {
    auto group = op.getAttrOfType<IntegerAttr>(attr::kGroup);
    if (!group || isForward(&op) || !leaders.count(group.getInt()))
      continue;
    Operation *leader = leaders[group.getInt()];
    forwardOf[&op] = leader;
    gradientOps[leader].push_back(&op);
  }
}

void ProgramFacts::findWeights() {
  auto isMove = [](Operation *op) {
    return isa<ReshapeOp, TransposeOp, ConvertOp>(op);
  };
  // Depth first through data movement to the first op that computes.
  std::function<bool(Value)> reachesContraction = [&](Value value) {
    bool found = false;
    for (Operation *user : value.getUsers()) {
      if (!isForward(user))
        continue;
      bool hit = isa<MatmulOp, ConvOp, ConvGradInputOp>(user) ||
                 (isa<EmbeddingOp>(user) && user->getOperand(0) == value) ||
                 (isMove(user) && reachesContraction(user->getResult(0)));
      found |= hit;
    }
    if (found)
      weights.insert(value);
    return found;
  };
  for (BlockArgument arg : func.getArguments())
    if (roleOf(func, arg) == role::kParameter)
      stored.insert(arg);
  for (Operation &op : func.getBody().front())
    if ((isMove(&op) || isa<SliceOp>(op)) && stored.contains(op.getOperand(0)))
      stored.insert(op.getResult(0));
  for (BlockArgument arg : func.getArguments()) {
    StringRef role = roleOf(func, arg);
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (type && type.getRank() >= 2 && isa<FloatType>(type.getElementType()) &&
        (role == role::kParameter || role == role::kBuffer))
      reachesContraction(arg);
  }
}

bool ProgramFacts::isForward(Operation *op) const {
  if (!factors.hasRule(op) || op->getNumResults() == 0)
    return false;
  if (auto phase = op->getAttrOfType<StringAttr>(attr::kPhase))
    return phase.getValue() == "forward";
  // An op without a phase is what it reads.
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return !producer || isForward(producer);
  });
}

bool ProgramFacts::hasBatch(Value value) const {
  for (int64_t i = 0, e = factors.numFactors(value); i < e; ++i)
    if (factors.classOf(value, i) == batchClass)
      return true;
  return false;
}

bool ProgramFacts::hasSequence(Value value) const {
  for (int64_t i = 0, e = factors.numFactors(value); i < e; ++i)
    if (sequenceClasses.contains(factors.classOf(value, i)))
      return true;
  return false;
}

bool ProgramFacts::isSequence(Operation *op, IterFactor factor) const {
  return sequenceClasses.contains(factors.classOf(op, factor));
}
