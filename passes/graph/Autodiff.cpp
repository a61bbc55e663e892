//===- Autodiff.cpp - Reverse-mode differentiation ------------------------===//
#include "passes/graph/Autodiff.h"
#include "ir/StopGradient.h"
#include "passes/graph/Match.h"

using namespace mlir;
using namespace dpc;

DenseSet<Value> dpc::reachedFrom(Value root,
                                 function_ref<bool(Operation *)> stops) {
  DenseSet<Value> reached = {root};
  SmallVector<Value> work = {root};
  while (!work.empty())
    if (Operation *op = work.pop_back_val().getDefiningOp(); op && !stops(op))
      for (Value operand : op->getOperands())
        if (isFloatTensor(operand.getType()) && reached.insert(operand).second)
          work.push_back(operand);
  return reached;
}

DenseSet<Value> dpc::dependents(Block &block, ArrayRef<Value> sources) {
  DenseSet<Value> active(sources.begin(), sources.end());
  for (Operation &op : block)
    if (!stopsGradient(&op) &&
        llvm::any_of(op.getOperands(),
                     [&](Value operand) { return active.contains(operand); }))
      for (Value result : op.getResults())
        if (isFloatTensor(result.getType()))
          active.insert(result);
  return active;
}

namespace {

class GradientTable {
public:
  void add(Value value, Value grad) { pending[value].push_back(grad); }

  /// Returns the sum of the contributions to `value`, in the order in which
  /// add() received them, or null if there are none.
  Value total(GraphBuilder g, Value value) {
    auto it = pending.find(value);
    if (it == pending.end())
      return Value();
    SmallVector<Value> &parts = it->second;
    Value sum = parts.front();
    for (Value part : ArrayRef<Value>(parts).drop_front())
      sum = g.add(sum, part);
    parts.assign(1, sum);
    return sum;
  }

private:
  DenseMap<Value, SmallVector<Value>> pending;
};

} // namespace

/// Adds the contributions of `op` to the gradients of its active operands.
/// Marks `op` and the new ops with the group `id`.
static LogicalResult propagate(OpBuilder &builder, Operation *op, int64_t id,
                               const DenseSet<Value> &active,
                               GradientTable &table) {
  Block &block = *op->getBlock();
  GraphBuilder g(builder, op->getLoc());
  auto resultGrads = llvm::map_to_vector(
      op->getResults(), [&](Value result) { return table.total(g, result); });
  if (llvm::none_of(resultGrads, [](Value grad) { return bool(grad); }))
    return success();
  auto wanted = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return active.contains(operand);
  });
  if (!llvm::is_contained(wanted, true))
    return success();
  auto vjp = dyn_cast<VjpOpInterface>(op);
  if (!vjp)
    return op->emitError("'") << op->getName() << "' has no gradient";
  SmallVector<Value> operandGrads;
  Operation *before = builder.getInsertionPoint() == block.begin()
                          ? nullptr
                          : &*std::prev(builder.getInsertionPoint());
  if (failed(vjp.buildVjp(builder, resultGrads, wanted, operandGrads)))
    return failure();
  // dpc-shard chooses shardings for the ops of one group together.
  Attribute group = builder.getI64IntegerAttr(id);
  op->setAttr(attr::kGroup, group);
  for (auto it = before ? std::next(before->getIterator()) : block.begin();
       it != builder.getInsertionPoint(); ++it)
    it->setAttr(attr::kGroup, group);
  for (auto [operand, grad, isWanted] :
       llvm::zip(op->getOperands(), operandGrads, wanted))
    if (isWanted && grad)
      table.add(operand, grad);
  return success();
}

/// Moves ops that depend only on parameters, such as conversions to 16-bit
/// types, before their first user. Gradient ops have the reverse order of the
/// forward ops. If the conversions came first in forward, their gradients would
/// come last in backward, and no gradient of a parameter could be reduced
/// earlier.
static void sinkParameterOps(Block &block, ArrayRef<Value> parameters) {
  DenseSet<Value> known(parameters.begin(), parameters.end());
  SmallVector<Operation *> found;
  for (Operation &op : block) {
    bool isMadeOfThem = op.getNumOperands() > 0 &&
                        llvm::all_of(op.getOperands(), [&](Value operand) {
                          return known.contains(operand);
                        });
    if (!isMadeOfThem)
      continue;
    known.insert(op.result_begin(), op.result_end());
    found.push_back(&op);
  }
  for (Operation *op : llvm::reverse(found)) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    if (first)
      op->moveBefore(first);
  }
}

FailureOr<SmallVector<Value>> dpc::buildGradients(OpBuilder &builder,
                                                  Value root, Value seed,
                                                  ArrayRef<Value> wanted) {
  Block &block = *root.getParentBlock();
  sinkParameterOps(block, wanted);
  DenseSet<Value> active = dependents(block, wanted);
  GradientTable table;
  if (active.contains(root))
    table.add(root, seed);
  // Collected first, because gradient ops are added to the same block.
  SmallVector<Operation *> ops;
  if (Operation *last = root.getDefiningOp())
    for (Operation &op : block) {
      ops.push_back(&op);
      if (&op == last)
        break;
    }
  for (auto [id, op] : llvm::enumerate(llvm::reverse(ops)))
    if (failed(propagate(builder, op, id, active, table)))
      return failure();
  SmallVector<Value> grads;
  for (Value value : wanted)
    grads.push_back(table.total(GraphBuilder(builder, value.getLoc()), value));
  return grads;
}

/// A negative scale would give a negative gradient norm.
static bool isNonNegative(Value value) {
  if (std::optional<double> splat = splatValue(value))
    return *splat >= 0.0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto convert = dyn_cast<ConvertOp>(op))
    return elementTypeOf(convert.getX()).isInteger(1) ||
           isNonNegative(convert.getX());
  if (isa<ReduceOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op))
    return isNonNegative(op->getOperand(0));
  if (auto unary = dyn_cast<UnaryOp>(op)) {
    if (llvm::is_contained({UnaryKind::exp, UnaryKind::abs, UnaryKind::sqrt,
                            UnaryKind::sigmoid, UnaryKind::relu},
                           unary.getKind()))
      return true;
    return (unary.getKind() == UnaryKind::reciprocal ||
            unary.getKind() == UnaryKind::rsqrt) &&
           isNonNegative(unary.getX());
  }
  if (auto binary = dyn_cast<BinaryOp>(op)) {
    if (binary.getKind() == BinaryKind::maximum)
      return isNonNegative(binary.getA()) || isNonNegative(binary.getB());
    return llvm::is_contained({BinaryKind::add, BinaryKind::mul,
                               BinaryKind::div, BinaryKind::minimum},
                              binary.getKind()) &&
           isNonNegative(binary.getA()) && isNonNegative(binary.getB());
  }
  if (auto select = dyn_cast<SelectOp>(op))
    return isNonNegative(select.getOnTrue()) &&
           isNonNegative(select.getOnFalse());
  return false;
}

PeeledLoss dpc::peelLoss(Value loss, const DenseSet<Value> &active) {
  PeeledLoss peeled;
  peeled.sum = loss;
  auto isActive = [&](Value value) { return active.contains(value); };
  while (Operation *op = peeled.sum.getDefiningOp()) {
    if (auto unary = dyn_cast<UnaryOp>(op);
        unary && unary.getKind() == UnaryKind::neg) {
      peeled.seed = -peeled.seed;
      peeled.sum = unary.getX();
      continue;
    }
    bool isScalarReshape =
        isa<ReshapeOp>(op) && shapeOf(op->getOperand(0)).empty();
    if ((isScalarReshape || isa<ConvertOp>(op)) && isActive(peeled.sum)) {
      peeled.sum = op->getOperand(0);
      continue;
    }
    auto binary = dyn_cast<BinaryOp>(op);
    if (!binary || !shapeOf(peeled.sum).empty())
      break;
    Value a = binary.getA(), b = binary.getB();
    bool isMul = binary.getKind() == BinaryKind::mul;
    bool isDiv = binary.getKind() == BinaryKind::div;
    if (isMul && !isActive(a))
      std::swap(a, b);
    // Factors with an unknown sign remain in the sum.
    if (!(isMul || isDiv) || !isActive(a) || isActive(b) || !isNonNegative(b))
      break;
    peeled.factors.push_back({b, isDiv});
    peeled.sum = a;
  }
  return peeled;
}

Value dpc::buildScale(GraphBuilder g, const PeeledLoss &peeled,
                      Type elementType) {
  Value scale;
  for (auto [factor, divides] : peeled.factors) {
    Value value = g.convert(factor, elementType);
    if (!scale)
      scale = divides ? g.unary(UnaryKind::reciprocal, value) : value;
    else
      scale = divides ? g.div(scale, value) : g.mul(scale, value);
  }
  return scale;
}
