//===- RankStack.cpp - Values that stack the parts of ranks ---------------===//
#include "passes/local/RankStack.h"

#include "ir/TensorUtils.h"
#include "passes/graph/GraphBuilder.h"

using namespace mlir;

namespace dpc {

/// Returns `axes` without `axis`; null if no other is left.
static ArrayAttr without(ArrayAttr axes, StringAttr axis) {
  SmallVector<Attribute> others;
  for (Attribute other : axes)
    if (other != axis)
      others.push_back(other);
  return others.empty() ? ArrayAttr()
                        : Builder(axes.getContext()).getArrayAttr(others);
}

static bool isOver(ArrayAttr axes, StringAttr axis) {
  return llvm::is_contained(axes, Attribute(axis));
}

/// Returns the shape of `value` with one part in dimension `dim`.
static SmallVector<int64_t> partShape(Value value, int64_t dim, int64_t ranks) {
  SmallVector<int64_t> shape(shapeOf(value));
  shape[dim] /= ranks;
  return shape;
}

/// Returns the dimension of the result of `op` that has the parts of dimension
/// `dim` of its operand; -1 without one.
static int64_t movedTo(Operation *op, int64_t dim, int64_t ranks) {
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return llvm::find(transpose.getPerm(), dim) - transpose.getPerm().begin();
  if (isa<AllGatherOp>(op))
    return dim + 1; // after the ranks that it stacks
  if (isa<ReduceScatterOp>(op))
    return dim - 1;
  if (!isa<ReshapeOp>(op))
    return dim;
  auto sizeBefore = [](ArrayRef<int64_t> shape, int64_t end) {
    return ShapedType::getNumElements(shape.take_front(end));
  };
  int64_t before = sizeBefore(shapeOf(op->getOperand(0)), dim);
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  for (auto [i, size] : llvm::enumerate(shape))
    if (auto result = static_cast<int64_t>(i);
        sizeBefore(shape, result) == before && size % ranks == 0)
      return result;
  return -1;
}

/// Fills the dimensions of `moves`, which begin with the parts in dimension 0.
/// Returns whether they end with the parts in dimension 0.
static bool follow(MutableArrayRef<StackMove> moves, int64_t ranks) {
  int64_t dim = 0;
  for (StackMove &move : moves) {
    dim = movedTo(move.op, dim, ranks);
    if (dim < 0)
      return false;
    move.dim = dim;
  }
  return dim == 0;
}

/// Reshapes `value`, or what it is a reshape of.
static Value reshaped(GraphBuilder &g, Value value, ArrayRef<int64_t> shape) {
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return g.reshape(value, shape);
}

/// Moves one part as `move` moves all.
static Value movePart(GraphBuilder &g, Value part, const StackMove &move,
                      StringAttr axis, int64_t ranks) {
  auto shape = [&] {
    return partShape(move.op->getResult(0), move.dim, ranks);
  };
  auto resultType = [&] { return tensorType(part).clone(shape()); };
  if (auto gather = dyn_cast<AllGatherOp>(move.op))
    return AllGatherOp::create(g.builder, g.loc, resultType(), part,
                               gather.getAxes())
        ->getResult(0);
  if (auto scatter = dyn_cast<ReduceScatterOp>(move.op))
    return ReduceScatterOp::create(g.builder, g.loc, resultType(),
                                   scatter.getKind(), part, scatter.getAxes())
        ->getResult(0);
  if (auto reduce = dyn_cast<AllReduceOp>(move.op)) {
    ArrayAttr others = without(reduce.getAxes(), axis);
    return !others ? part
                   : AllReduceOp::create(g.builder, g.loc, part.getType(),
                                         reduce.getKind(), part, others)
                         ->getResult(0);
  }
  if (auto transpose = dyn_cast<TransposeOp>(move.op))
    return g.transpose(part, transpose.getPerm());
  return isa<ReshapeOp>(move.op) ? reshaped(g, part, shape()) : part;
}

std::optional<RankStack> RankStack::find(Value value, StringAttr axis,
                                         int64_t ranks) {
  RankStack stack;
  stack.ranks = ranks;
  bool isConverted = false;
  while (Operation *op = value.getDefiningOp()) {
    auto gather = dyn_cast<AllGatherOp>(op);
    if (gather && gather.getAxes()[0] == axis) {
      stack.base = gather;
      stack.index = cast<OpResult>(value).getResultNumber();
      break;
    }
    bool isInner = gather && !isOver(gather.getAxes(), axis) &&
                   gather.getInputs().size() == 1;
    bool isSecond = isa<ConvertOp>(op) && std::exchange(isConverted, true);
    if (isSecond || (!isInner && !isa<ReshapeOp, TransposeOp, ConvertOp>(op)))
      return std::nullopt;
    stack.moves.push_back({op, 0});
    value = op->getOperand(0);
  }
  std::reverse(stack.moves.begin(), stack.moves.end());
  if (!stack.base || !follow(stack.moves, ranks))
    return std::nullopt;
  return stack;
}

Value RankStack::partOf(OpBuilder &builder, Location loc, Type type) const {
  GraphBuilder g(builder, loc);
  AllGatherOp outer = base;
  auto axis = cast<StringAttr>(outer.getAxes()[0]);
  Value part = g.convert(outer.getInputs()[index], type);
  SmallVector<int64_t> shape = partShape(gathered(), 0, ranks);
  if (ArrayAttr inner = without(outer.getAxes(), axis))
    part = AllGatherOp::create(builder, loc, tensorType(part).clone(shape),
                               part, inner)
               ->getResult(0);
  part = g.reshape(part, shape);
  for (const StackMove &move : moves)
    part = movePart(g, part, move, axis, ranks);
  return part;
}

std::optional<RankScatter> RankScatter::find(Value value, StringAttr axis,
                                             int64_t ranks) {
  RankScatter found;
  found.axis = axis;
  found.ranks = ranks;
  bool isReduced = false;
  while (value.hasOneUse()) {
    Operation *op = *value.getUsers().begin();
    auto scatter = dyn_cast<ReduceScatterOp>(op);
    auto reduce = dyn_cast<AllReduceOp>(op);
    auto slice = dyn_cast<RankSliceOp>(op);
    auto sums = [](auto collective) {
      return collective && collective.getKind() == ReduceKind::sum &&
             collective.getInputs().size() == 1;
    };
    if ((sums(scatter) && !isReduced && scatter.getAxes()[0] == axis) ||
        (slice && isReduced && slice.getAxes().size() == 1 &&
         slice.getAxes()[0] == axis)) {
      found.last = op;
      break;
    }
    bool isMove = isa<ReshapeOp, TransposeOp, ConvertOp>(op) ||
                  (sums(scatter) && !isOver(scatter.getAxes(), axis)) ||
                  (sums(reduce) && !isReduced);
    if (!isMove)
      return std::nullopt;
    isReduced |= reduce && isOver(reduce.getAxes(), axis);
    found.moves.push_back({op, 0});
    value = op->getResult(0);
  }
  if (!found.last || !follow(found.moves, ranks))
    return std::nullopt;
  return found;
}

Value RankScatter::scatter(OpBuilder &builder, Value part) const {
  GraphBuilder g(builder, last->getLoc());
  for (const StackMove &move : moves)
    part = movePart(g, g.convert(part, elementTypeOf(move.op->getResult(0))),
                    move, axis, ranks);
  RankedTensorType type = tensorType(last->getResult(0));
  part = g.convert(part, type.getElementType());
  auto outer = dyn_cast<ReduceScatterOp>(last);
  ArrayAttr inner = outer ? without(outer.getAxes(), axis) : ArrayAttr();
  if (!inner)
    return reshaped(g, part, type.getShape());
  part = reshaped(g, part, partShape(last->getOperand(0), 0, ranks));
  return ReduceScatterOp::create(builder, g.loc, type, ReduceKind::sum, part,
                                 inner)
      ->getResult(0);
}

void RankScatter::erase() {
  last->erase();
  for (const StackMove &move : llvm::reverse(moves))
    move.op->erase();
}

} // namespace dpc
