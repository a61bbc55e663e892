//===- ExpandAttention.cpp - dpc-expand-attention -------------------------===//
//
// H = G * R query heads share G key heads. Folding R into the rows,
// [B, H, T, D] = [B, G, R * T, D], makes every product a plain batched matmul:
//
//   s  = q k^T       [B, G, R*T, S]    seen as [B, H, T, S] by the row kernels
//   o  = p v         [B, G, R*T, E]
//   dk = ds^T q      [B, G, S, D]      summed over R by the contraction
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCEXPANDATTENTION
#include "passes/local/Passes.h.inc"

namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Builds the pieces of one attention op.
class Expander {
public:
  Expander(Operation *op, Value q, Value k, Value v)
      : op(op), builder(op), loc(op->getLoc()) {
    element = cast<RankedTensorType>(q.getType()).getElementType();
    batch = shapeOf(q)[0];
    heads = shapeOf(q)[1];
    queries = shapeOf(q)[2];
    depth = shapeOf(q)[3];
    groups = shapeOf(k)[1];
    keys = shapeOf(k)[2];
    valueDepth = shapeOf(v)[3];
  }

  LogicalResult check() {
    if (groups != 0 && heads % groups == 0)
      return success();
    return op->emitError("a rank has ")
           << heads << " query heads and " << groups
           << " key heads, expected a multiple";
  }

  void expand(AttentionOp attention);
  void expand(AttentionGradOp grad);

private:
  RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, element);
  }
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    if (shapeOf(value) == shape)
      return value;
    return tagged(ReshapeOp::create(builder, loc, tensor(shape), value));
  }
  /// [B, H, T, x] -> [B, G, R * T, x].
  Value fold(Value value, int64_t columns) {
    return reshape(value, {batch, groups, heads / groups * queries, columns});
  }
  Value unfold(Value value, int64_t columns) {
    return reshape(value, {batch, heads, queries, columns});
  }
  Value matmul(Value a, Value b, bool ta, bool tb) {
    int64_t m = shapeOf(a)[ta ? 3 : 2], n = shapeOf(b)[tb ? 2 : 3];
    return tagged(MatmulOp::create(builder, loc, tensor({batch, groups, m, n}),
                                   a, b, ta, tb));
  }
  template <typename OpTy> OpTy tagged(OpTy made) {
    for (StringRef name : {attr::kPhase, attr::kChunk})
      if (Attribute value = op->getAttr(name))
        made->setAttr(name, value);
    return made;
  }
  Value rowDot(Value a, Value b, RankedTensorType type);

  Operation *op;
  OpBuilder builder;
  Location loc;
  Type element;
  int64_t batch, heads, queries, depth, groups, keys, valueDepth;
};

void Expander::expand(AttentionOp attention) {
  Value q = fold(attention.getQ(), depth);
  Value scores = unfold(matmul(q, attention.getK(), false, true), keys);
  auto probs = tagged(AttentionProbsOp::create(
      builder, loc, scores.getType(), attention.getLse().getType(), scores,
      attention.getMask(), attention.getScaleAttr(),
      attention.getCausalAttr()));
  Value out =
      matmul(fold(probs.getProbs(), keys), attention.getV(), false, false);
  attention.replaceAllUsesWith(
      ValueRange{unfold(out, valueDepth), probs.getLse()});
  attention.erase();
}

/// The sum of a * b along the last dimension, as `type`.
Value Expander::rowDot(Value a, Value b, RankedTensorType type) {
  if (type.getElementType() != element) {
    auto wide = RankedTensorType::get(shapeOf(a), type.getElementType());
    a = tagged(ConvertOp::create(builder, loc, wide, a));
    b = tagged(ConvertOp::create(builder, loc, wide, b));
  }
  Value product = tagged(
      BinaryOp::create(builder, loc, a.getType(), BinaryKind::mul, a, b));
  return tagged(ReduceOp::create(builder, loc, type, ReduceKind::sum, product,
                                 ArrayRef<int64_t>{3}));
}

void Expander::expand(AttentionGradOp grad) {
  Value q = fold(grad.getQ(), depth);
  Value dout = fold(grad.getDout(), valueDepth);
  Value scores = unfold(matmul(q, grad.getK(), false, true), keys);
  Value dprobs = unfold(matmul(dout, grad.getV(), false, true), keys);
  Value delta = rowDot(grad.getDout(), grad.getOut(), grad.getLse().getType());
  auto rows = tagged(AttentionScoresGradOp::create(
      builder, loc, scores.getType(), scores.getType(), scores, grad.getLse(),
      dprobs, delta, grad.getMask(), grad.getScaleAttr(),
      grad.getCausalAttr()));
  Value probs = fold(rows.getProbs(), keys);
  Value dscores = fold(rows.getDscores(), keys);
  Value dq = unfold(matmul(dscores, grad.getK(), false, false), depth);
  Value dk = matmul(dscores, q, true, false);
  Value dv = matmul(probs, dout, true, false);
  grad.replaceAllUsesWith(ValueRange{dq, dk, dv});
  grad.erase();
}

struct ExpandAttentionPass : impl::DpcExpandAttentionBase<ExpandAttentionPass> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(attr::kMesh))
        func.walk([&](Operation *op) {
          if (isa<AttentionOp, AttentionGradOp>(op))
            ops.push_back(op);
        });
    for (Operation *op : ops)
      if (failed(expandOp(op)))
        return signalPassFailure();
  }

  static LogicalResult expandOp(Operation *op) {
    Expander expander(op, op->getOperand(0), op->getOperand(1),
                      op->getOperand(2));
    if (failed(expander.check()))
      return failure();
    if (auto attention = dyn_cast<AttentionOp>(op))
      expander.expand(attention);
    else
      expander.expand(cast<AttentionGradOp>(op));
    return success();
  }
};

} // namespace
} // namespace dpc
