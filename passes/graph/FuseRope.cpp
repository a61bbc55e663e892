//===- FuseRope.cpp - Rotary embeddings from primitives -------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// Returns whether `slice` is the half of the last dimension of `x` that begins
/// at `start`. If `x` is a slice, `slice` may be one of the same source.
static bool isHalf(SliceOp slice, Value x, int64_t start) {
  auto part = x.getDefiningOp<SliceOp>();
  bool isNested = slice && slice.getX() != x;
  if (!slice || (isNested && (!part || part.getX() != slice.getX())))
    return false;
  ArrayRef<int64_t> from = shapeOf(x), to = shapeOf(slice.getResult());
  int64_t last = from.size() - 1;
  for (int64_t dim = 0; dim <= last; ++dim) {
    int64_t offset = isNested ? part.getOffsets()[dim] : 0;
    int64_t stride = isNested ? part.getStrides()[dim] : 1;
    int64_t begin = dim == last ? start : 0;
    int64_t size = dim == last ? from[dim] / 2 : from[dim];
    if (to[dim] != size || slice.getStrides()[dim] != stride ||
        slice.getOffsets()[dim] != offset + begin * stride)
      return false;
  }
  return from[last] % 2 == 0;
}

/// Returns whether `value` is concat(-x2, x1), where x is concat(x1, x2).
static bool isRotatedHalf(Value value, Value x) {
  auto concat = value.getDefiningOp<ConcatOp>();
  int64_t last = shapeOf(value).size() - 1;
  if (!concat || concat.getParts().size() != 2 ||
      x.getType() != value.getType() ||
      static_cast<int64_t>(concat.getDim()) != last)
    return false;
  UnaryOp negated = unaryOf(concat.getParts()[0], UnaryKind::neg);
  return negated &&
         isHalf(concat.getParts()[1].getDefiningOp<SliceOp>(), x, 0) &&
         isHalf(negated.getX().getDefiningOp<SliceOp>(), x,
                shapeOf(x)[last] / 2);
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
    BinaryOp cosMul = binaryOf(plain, BinaryKind::mul),
             sinMul = binaryOf(rotated, BinaryKind::mul);
    if (!cosMul || !sinMul)
      continue;
    for (auto [x, cos] : operandOrders(cosMul)) {
      Value sin = otherOperand(
          sinMul, [&, x = x](Value half) { return isRotatedHalf(half, x); });
      Value cosTable = sin ? rotaryTable(cos, rewriter) : Value();
      Value sinTable = cosTable ? rotaryTable(sin, rewriter) : Value();
      if (!sinTable)
        continue;
      rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, cosTable,
                                          sinTable, /*inverse=*/false);
      return success();
    }
  }
  return failure();
}

void dpc::populateRopePatterns(RewritePatternSet &patterns) {
  patterns.add(fuseRope);
}
