//===- ProgramFacts.cpp - Facts that shardings depend on ---------===//
#include "ir/TensorUtils.h"
#include "passes/graph/AttentionBands.h"
#include "passes/graph/Autodiff.h"
#include "passes/shard/Passes.h"
#include "passes/shard/StrategyGraph.h"

using namespace mlir;
using namespace dpc;

func::FuncOp dpc::findProgram(ModuleOp module) {
  if (auto func = module.lookupSymbol<func::FuncOp>("train_step"))
    return func;
  return module.lookupSymbol<func::FuncOp>("forward");
}

/// Returns the number of stripes for a ring (ExpandRing.cpp). With m stripes,
/// every rank does (m + 1) / 2m of the FLOPs of causal attention.
static int64_t stripesOf(Operation *op, int64_t positions, int64_t ranks) {
  if (!op->hasAttr("causal"))
    return 1;
  // Shorter blocks make kernels too small.
  constexpr int64_t kLongBlock = 64;
  for (int64_t stripes : {8, 4})
    if (positions % (stripes * ranks) == 0 &&
        positions / (stripes * ranks) >= kLongBlock)
      return stripes;
  return positions % (2 * ranks) == 0 ? 2 : 1;
}

/// Replaces the windows of rings by masks, of which every rank has the rows of
/// its queries.
static void maskWindows(ArrayRef<Operation *> rings) {
  // By length, window and type.
  DenseMap<std::tuple<int64_t, int64_t, Type>, Value> masks;
  for (Operation *op : rings) {
    auto window = op->getAttrOfType<IntegerAttr>("window");
    if (!window)
      continue;
    OpBuilder builder(op);
    GraphBuilder g(builder, op->getLoc());
    Operation *before = op->getPrevNode();
    Value q = op->getOperand(0);
    int64_t length = shapeOf(q)[2];
    Type type = elementTypeOf(q);
    Value &mask = masks[{length, window.getInt(), type}];
    if (!mask)
      mask = windowMask(g, length, length, window.getInt(), type);
    hideByMask(g, op, mask);
    markLike(op, before);
  }
}

void dpc::markRings(func::FuncOp func, const LoweringSpec &spec) {
  if (spec.cp == 1 || spec.cpKind != cost::CpKind::Ring)
    return;
  auto positions = [](Operation *op, unsigned operand) {
    return shapeOf(op->getOperand(operand))[2];
  };
  SmallVector<Operation *> rings;
  func.walk([&](Operation *op) {
    // If queries and keys have different lengths, keys and values are gathered.
    if (!isa<AttentionOp, AttentionGradOp>(op) ||
        positions(op, 0) != positions(op, 1))
      return;
    op->setAttr(attr::kRing, UnitAttr::get(op->getContext()));
    rings.push_back(op);
  });
  maskWindows(rings);
  FactorAnalysis uncut(func);
  for (Operation *op : rings) {
    int64_t dim = uncut.rule(op).operands[0][2].front();
    // Estimates of other software have no stripes (RingForm::balanced).
    int64_t stripes = spec.attention == AttentionForm::whole
                          ? 1
                          : stripesOf(op, positions(op, 0), spec.cp);
    // Stripes may not align with factors that other ops cut from the dimension.
    if (stripes > 1 && uncut.factors(op, dim).size() == 1)
      op->setAttr(attr::kRingFactors,
                  DenseI64ArrayAttr::get(
                      op->getContext(), {stripes, positions(op, 0) / stripes}));
  }
}

void ProgramFacts::findRings() {
  for (Operation &op : func.getBody().front())
    if (op.hasAttr(attr::kRingFactors)) {
      int64_t dim = factors.rule(&op).operands[0][2].front();
      int64_t last = factors.factors(&op, dim).size() - 1;
      ringClasses.insert(factors.classOf(&op, {dim, last}));
    }
}

ProgramFacts::ProgramFacts(func::FuncOp func) : func(func), factors(func) {
  findForward();
  findInputs();
  findRings();
  findHidden();
  SmallVector<Value> parameters;
  for (BlockArgument arg : func.getArguments())
    if (roleOfArgument(func, arg.getArgNumber()) == role::kParameter)
      parameters.push_back(arg);
  // In inference, the program has no gradient ops, and no value has a gradient.
  findGroups();
  if (!forwardOf.empty())
    active = dependents(func.getBody().front(), parameters);
  findWeights();
}

void ProgramFacts::findInputs() {
  bool isUnread = false; // whether the batch is that of an input without use
  for (BlockArgument arg : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!type || roleOfArgument(func, arg.getArgNumber()) != role::kInput)
      continue;
    auto batchDim =
        func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), attr::kBatchDim);
    int64_t index = 0;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      for (size_t i = 0; i < factors.factors(arg, dim).size(); ++i, ++index) {
        int64_t cls = factors.classOf(arg, index);
        if (batchDim && dim == batchDim.getInt()) {
          globalBatch = type.getDimSize(dim);
          // If the batch has several factors, the outermost is split. The
          // samples of an input that no op reads are those of no other value.
          if (i == 0 && (batchClass < 0 || isUnread)) {
            batchClass = cls;
            batchFactor = factors.factors(arg, dim).front();
            microBatchClass = -1;
            isUnread = arg.use_empty();
          } else if (i == 1 && microBatchClass < 0) {
            microBatchClass = cls;
          }
        } else if (type.getElementType().isInteger()) {
          sequenceClasses.insert(cls);
        }
      }
  }
  // Without token ids (for example with patches of an image), the query
  // positions of attention are the sequence.
  if (sequenceClasses.empty())
    func.walk([&](AttentionOp op) {
      Value q = op.getQ();
      for (int64_t i = factors.numFactors(q, 2); i < factors.numFactors(q, 3);
           ++i)
        sequenceClasses.insert(factors.classOf(q, i));
    });
  sequenceClasses.erase(batchClass);
}

Operation *ProgramFacts::wholeBatchOp() const {
  if (batchClass >= 0)
    for (Operation &op : func->getRegion(0).front())
      if (isForward(&op) && factors.needsWhole(&op, batchClass))
        return &op;
  return nullptr;
}

void ProgramFacts::findHidden() {
  func.walk([&](NormOp op) {
    Value x = op.getX();
    int64_t rank = op.getX().getType().getRank();
    for (int64_t i = factors.numFactors(x, rank - 1); i < factors.numFactors(x);
         ++i)
      hiddenClasses.insert(factors.classOf(x, i));
  });
}

void ProgramFacts::findGroups() {
  // A group may have several forward ops, for example an expanded cross
  // entropy. The op that moves the most bytes leads the group.
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
  // Follows data movement depth first to the first op that computes.
  std::function<bool(Value)> reachesContraction = [&](Value value) {
    bool found = false;
    for (Operation *user : value.getUsers()) {
      if (!isForward(user))
        continue;
      bool hit = isa<MatmulOp, ExpertMatmulOp, ConvOp, ConvGradInputOp>(user) ||
                 (isa<EmbeddingOp>(user) && user->getOperand(0) == value) ||
                 (isMove(user) && reachesContraction(user->getResult(0)));
      found |= hit;
    }
    if (found)
      weights.insert(value);
    return found;
  };
  for (BlockArgument arg : func.getArguments())
    if (roleOfArgument(func, arg.getArgNumber()) == role::kParameter)
      stored.insert(arg);
  for (Operation &op : func.getBody().front())
    if ((isMove(&op) || isa<SliceOp>(op)) && stored.contains(op.getOperand(0)))
      stored.insert(op.getResult(0));
  for (BlockArgument arg : func.getArguments()) {
    StringRef role = roleOfArgument(func, arg.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (type && type.getRank() >= 2 && isa<FloatType>(type.getElementType()) &&
        (role == role::kParameter || role == role::kBuffer))
      reachesContraction(arg);
  }
}

void ProgramFacts::findForward() {
  for (Operation &op : func.getBody().front()) {
    if (!factors.hasRule(&op) || op.getNumResults() == 0)
      continue;
    std::optional<Phase> phase = markedPhase(&op);
    // An op without a phase has the phase of its operands.
    bool isIt = phase ? *phase == Phase::forward
                      : llvm::all_of(op.getOperands(), [&](Value operand) {
                          Operation *producer = operand.getDefiningOp();
                          return !producer || forward.contains(producer);
                        });
    if (isIt)
      forward.insert(&op);
  }
}

bool ProgramFacts::hasBatch(Value value) const {
  return factors.indexOf(value, batchClass) >= 0;
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
