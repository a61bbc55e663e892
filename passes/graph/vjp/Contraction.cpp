//===- Contraction.cpp - Gradients of matmul and attention ----------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Grads;

namespace {

/// `x` with all dimensions but the last made one.
Value flattenRows(GraphBuilder g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  int64_t rows = 1;
  for (int64_t size : shape.drop_back())
    rows *= size;
  return g.reshape(x, {rows, shape.back()});
}

/// With y = op(a) op(b), every gradient is one matmul in the layout of its
/// operand, so no transpose is ever made:
///
///   a [m,k]: da = dy op(b)^T         a [k,m]: da = op(b) dy^T
///   b [k,n]: db = op(a)^T dy         b [n,k]: db = dy^T op(a)
///
/// A plain matrix b shared by all batches sums its gradient over them: the
/// batches join the contracted rows, and that sum is part of the matmul (and
/// where they are split, the result is partial).
struct MatmulVjp : VjpOpInterface::ExternalModel<MatmulVjp, MatmulOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto matmul = cast<MatmulOp>(op);
    GraphBuilder g(builder, op->getLoc());
    Value a = matmul.getA(), b = matmul.getB();
    // The sums of a bf16 product may have been kept in f32.
    Value dy = g.convert(resultGrads[0], tensorType(a).getElementType());
    bool ta = matmul.getTa(), tb = matmul.getTb();
    operandGrads.assign(2, Value());
    if (wanted[0])
      operandGrads[0] =
          ta ? g.matmul(b, dy, tb, true) : g.matmul(dy, b, false, !tb);
    if (!wanted[1])
      return success();
    if (shapeOf(a).size() > shapeOf(b).size()) {
      a = flattenRows(g, a);
      dy = flattenRows(g, dy);
    }
    operandGrads[1] =
        tb ? g.matmul(dy, a, true, ta) : g.matmul(a, dy, !ta, false);
    return success();
  }
};

struct AttentionVjp : VjpOpInterface::ExternalModel<AttentionVjp, AttentionOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto attention = cast<AttentionOp>(op);
    operandGrads.assign(op->getNumOperands(), Value());
    if (resultGrads[1])
      return op->emitError("the log-sum-exp of attention has no gradient");
    if (wanted.size() > 3 && wanted[3])
      return op->emitError("attention has no gradient in its mask");
    Value q = attention.getQ(), k = attention.getK(), v = attention.getV();
    auto grad = AttentionGradOp::create(
        builder, op->getLoc(), q.getType(), k.getType(), v.getType(), q, k, v,
        attention.getOut(), attention.getLse(), resultGrads[0],
        attention.getMask(), attention.getScaleAttr(),
        attention.getCausalAttr());
    for (unsigned i = 0; i < 3; ++i)
      if (wanted[i])
        operandGrads[i] = grad->getResult(i);
    return success();
  }
};

struct RopeVjp : VjpOpInterface::ExternalModel<RopeVjp, RopeOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto rope = cast<RopeOp>(op);
    operandGrads.assign(3, Value());
    if (wanted[1] || wanted[2])
      return op->emitError("rope has no gradient in cos and sin");
    if (wanted[0])
      operandGrads[0] = RopeOp::create(
          builder, op->getLoc(), rope.getX().getType(), resultGrads[0],
          rope.getCos(), rope.getSin(), !rope.getInverse());
    return success();
  }
};

} // namespace

void vjp::attachContraction(MLIRContext &context) {
  MatmulOp::attachInterface<MatmulVjp>(context);
  AttentionOp::attachInterface<AttentionVjp>(context);
  RopeOp::attachInterface<RopeVjp>(context);
}
