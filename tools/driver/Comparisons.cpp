//===- Comparisons.cpp - What a loss compares with the inputs -------------===//
#include "tools/driver/Comparisons.h"

#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Match.h"

#include <tuple>

using namespace mlir;

namespace dpc {

bool worksOnElements(Operation *op) {
  return isa<UnaryOp, BinaryOp, SelectOp, CompareOp, ConvertOp, ReduceOp,
             ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(op);
}

namespace {

/// Finds comparisons that are no cross entropies.
class ComparisonFinder {
public:
  explicit ComparisonFinder(func::FuncOp forward) : forward(forward) {
    findWeighted();
    findTail();
    findRead();
  }

  SmallVector<Comparison> find();

private:
  func::FuncOp forward;
  /// Values that depend on a parameter or buffer.
  llvm::DenseSet<Value> weighted;
  /// Ops between the elements that are compared and the loss.
  llvm::DenseSet<Operation *> tail;
  /// Inputs that ops before the tail read.
  llvm::DenseSet<Value> read;

  void findWeighted();
  void findTail();
  void findRead();
  SmallVector<Value> inputsOf(ValueRange values) const;
  Value targetOf(Value target) const;
  std::optional<Comparison> comparisonIn(BinaryOp op) const;
};

bool hasElements(Value value, int64_t count) {
  return tensorType(value).getNumElements() == count;
}

void ComparisonFinder::findWeighted() {
  for (BlockArgument argument : forward.getArguments())
    if (roleOf(argument) == role::kParameter ||
        roleOf(argument) == role::kBuffer)
      weighted.insert(argument);
  for (Operation &op : forward.front())
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return weighted.contains(value); }))
      weighted.insert_range(op.getResults());
}

void ComparisonFinder::findTail() {
  dependencies({lossOf(forward)}, [&](Operation *op) {
    if (worksOnElements(op))
      tail.insert(op);
    return worksOnElements(op);
  });
}

/// Returns the inputs on which `values` depend.
SmallVector<Value> ComparisonFinder::inputsOf(ValueRange values) const {
  SmallVector<Value> inputs;
  for (Value value : dependencies(SmallVector<Value>(values),
                                  [](Operation *) { return true; }))
    if (isa<BlockArgument>(value) && roleOf(value) == role::kInput)
      inputs.push_back(value);
  return inputs;
}

void ComparisonFinder::findRead() {
  SmallVector<Value> operands;
  for (Operation &op : forward.front().without_terminator())
    if (!isa<CrossEntropyOp>(op) && !tail.contains(&op) &&
        llvm::any_of(op.getResults(),
                     [&](Value value) { return weighted.contains(value); }))
      for (Value operand : op.getOperands())
        if (!weighted.contains(operand))
          operands.push_back(operand);
  read.insert_range(inputsOf(operands));
}

/// Returns the input of which `target` has the elements in the same order, each
/// one changed in the same way, or `target`.
Value ComparisonFinder::targetOf(Value target) const {
  const int64_t count = tensorType(target).getNumElements();
  Value value = target;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<UnaryOp, BinaryOp, ConvertOp, ReshapeOp>(op))
      return target;
    SmallVector<Value> operands =
        llvm::filter_to_vector(op->getOperands(), [&](Value operand) {
          return !inputsOf(operand).empty();
        });
    if (operands.size() != 1 || !hasElements(operands.front(), count))
      return target;
    value = operands.front();
  }
  return value;
}

/// Adds the range of the scores if `op` subtracts them from their targets as
/// they are.
Comparison bounded(Comparison comparison, BinaryOp op, Value target) {
  Value scores = skipMoves(comparison.scores);
  if (op.getKind() != BinaryKind::sub || skipMoves(target) != comparison.labels)
    return comparison;
  if (unaryOf(scores, UnaryKind::sigmoid) || scores.getDefiningOp<SoftmaxOp>())
    std::tie(comparison.lowest, comparison.highest) = std::pair(0, 1);
  else if (unaryOf(scores, UnaryKind::tanh))
    std::tie(comparison.lowest, comparison.highest) = std::pair(-1, 1);
  else if (unaryOf(scores, UnaryKind::relu))
    comparison.lowest = 0;
  return comparison;
}

std::optional<Comparison> ComparisonFinder::comparisonIn(BinaryOp op) const {
  for (auto [scores, target] : operandOrders(op)) {
    if (!weighted.contains(scores) || weighted.contains(target) ||
        !isFloatTensor(tensorType(scores)) ||
        !hasElements(repeatedSource(target).source,
                     tensorType(scores).getNumElements()))
      continue;
    SmallVector<Value> inputs = inputsOf(target);
    if (!inputs.empty() && llvm::none_of(inputs, [&](Value input) {
          return read.contains(input);
        }))
      return bounded({scores, targetOf(target)}, op, target);
  }
  return std::nullopt;
}

SmallVector<Comparison> ComparisonFinder::find() {
  SmallVector<Comparison> found;
  // Values after a comparison, such as errors that a mask multiplies.
  llvm::DenseSet<Value> compared;
  for (Operation &op : forward.front()) {
    auto binary = dyn_cast<BinaryOp>(op);
    bool isAfter = isa<CrossEntropyOp>(op) ||
                   llvm::any_of(op.getOperands(), [&](Value value) {
                     return compared.contains(value);
                   });
    if (binary && tail.contains(&op) && !isAfter)
      if (std::optional<Comparison> comparison = comparisonIn(binary)) {
        isAfter = true;
        comparison->op = binary;
        if (llvm::none_of(found, [&](const Comparison &other) {
              return other.scores == comparison->scores &&
                     other.labels == comparison->labels;
            }))
          found.push_back(*comparison);
      }
    if (isAfter)
      compared.insert_range(op.getResults());
  }
  return found;
}

} // namespace

Value lossOf(func::FuncOp forward) {
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (forward.getResultAttr(i, attr::kLoss))
      return forward.front().getTerminator()->getOperand(i);
  return nullptr;
}

SmallVector<Comparison> comparisonsOf(func::FuncOp forward) {
  SmallVector<Comparison> found;
  for (CrossEntropyOp op : forward.getOps<CrossEntropyOp>())
    found.push_back({.scores = op.getLogits(),
                     .labels = op.getLabels(),
                     .losses = op.getLoss(),
                     .op = op});
  if (lossOf(forward))
    found.append(ComparisonFinder(forward).find());
  return found;
}

/// Whether something is multiplied by `value`.
static bool isFactor(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    auto binary = dyn_cast<BinaryOp>(user);
    return (binary && binary.getKind() == BinaryKind::mul) ||
           (isa<ReshapeOp, ConvertOp, SelectOp>(user) &&
            isFactor(user->getResult(0)));
  });
}

EmbeddingOp classWeightsOf(func::FuncOp forward, Value input) {
  for (EmbeddingOp rows : forward.getOps<EmbeddingOp>())
    if (shapeOf(rows.getTable())[1] == 1 && isFactor(rows.getResult()) &&
        dependencies({rows.getIds()}, [](Operation *) {
          return true;
        }).contains(input))
      return rows;
  return {};
}

} // namespace dpc
