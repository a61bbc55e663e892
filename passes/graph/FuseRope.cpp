//===- FuseRope.cpp - Rotary embeddings from primitives -------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

static bool isHalf(SliceOp slice, Value x, int64_t start) {
  if (!slice || slice.getX() != x)
    return false;
  ArrayRef<int64_t> from = shapeOf(x), to = shapeOf(slice.getResult());
  int64_t last = from.size() - 1;
  for (int64_t dim = 0; dim < last; ++dim)
    if (from[dim] != to[dim] || slice.getOffsets()[dim] != 0 ||
        slice.getStrides()[dim] != 1)
      return false;
  return from[last] == 2 * to[last] && slice.getOffsets()[last] == start &&
         slice.getStrides()[last] == 1;
}

/// Returns x if `value` is concat(-x2, x1) and x is concat(x1, x2).
static Value rotatedHalf(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (!concat || concat.getParts().size() != 2)
    return nullptr;
  int64_t last = shapeOf(value).size() - 1;
  if (static_cast<int64_t>(concat.getDim()) != last)
    return nullptr;
  UnaryOp negated = unaryOf(concat.getParts()[0], UnaryKind::neg);
  auto first = concat.getParts()[1].getDefiningOp<SliceOp>();
  if (!negated || !first)
    return nullptr;
  Value x = first.getX();
  if (x.getType() != value.getType())
    return nullptr;
  int64_t half = shapeOf(x)[last] / 2;
  auto second = negated.getX().getDefiningOp<SliceOp>();
  return isHalf(first, x, 0) && isHalf(second, x, half) ? x : Value();
}

/// Returns the table [T, D] that `value` [.., T, D] repeats, or null. A table
/// that depends on parameters is not accepted: its gradient is cheaper in
/// primitive ops.
static Value rotaryTable(Value value, PatternRewriter &rewriter) {
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t rank = shape.size();
  Repeated repeated = repeatedSource(value);
  SmallVector<int64_t> expected;
  for (int64_t dim : {rank - 2, rank - 1})
    if (shape[dim] != 1)
      expected.push_back(dim);
  if (repeated.dims != expected || dependsOnParameter(repeated.source))
    return nullptr;
  return GraphBuilder(rewriter, value.getLoc())
      .reshape(repeated.source, shape.take_back(2));
}

static LogicalResult fuseRope(BinaryOp op, PatternRewriter &rewriter) {
  if (op.getKind() != BinaryKind::add || shapeOf(op.getResult()).size() < 2)
    return failure();
  for (auto [plain, rotated] : operandOrders(op)) {
    BinaryOp sinMul = binaryOf(rotated, BinaryKind::mul);
    Value x;
    Value sin = otherOperand(sinMul, [&](Value operand) {
      x = rotatedHalf(operand);
      return bool(x);
    });
    Value cos = otherOperand(binaryOf(plain, BinaryKind::mul),
                             [&](Value operand) { return operand == x; });
    if (!sin || !cos)
      continue;
    Value cosTable = rotaryTable(cos, rewriter);
    Value sinTable = cosTable ? rotaryTable(sin, rewriter) : Value();
    if (!sinTable)
      continue;
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, cosTable, sinTable,
                                        /*inverse=*/false);
    return success();
  }
  return failure();
}

void dpc::populateRopePatterns(RewritePatternSet &patterns) {
  patterns.add(fuseRope);
}
