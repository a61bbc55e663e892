//===- Contraction.cpp - Gradients of matmul and attention ----------------===//
#include "ir/Attributes.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Fp8.h"
#include "passes/graph/vjp/Vjp.h"

#include <limits>

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
    Value dy = g.convert(resultGrads[0], elementTypeOf(a));
    bool ta = matmul.getTa(), tb = matmul.getTb();
    operandGrads.assign(2, Value());
    // A gradient of a product in fp8 is one, too.
    auto product = [&](Value left, Value right, bool tLeft, bool tRight) {
      Value made = g.matmul(left, right, tLeft, tRight);
      if (op->hasAttr(attr::kFp8))
        markFp8(made.getDefiningOp<MatmulOp>(), left == dy, right == dy);
      return made;
    };
    if (wanted[0])
      operandGrads[0] =
          ta ? product(b, dy, tb, true) : product(dy, b, false, !tb);
    if (!wanted[1])
      return success();
    if (shapeOf(a).size() > shapeOf(b).size()) {
      a = flattenRows(g, a);
      dy = flattenRows(g, dy);
    }
    operandGrads[1] =
        tb ? product(dy, a, true, ta) : product(a, dy, !ta, false);
    return success();
  }
};

/// `x` [B, H, T, D] with the heads of one key head in one row block:
/// [B, G, H / G * T, D].
Value groupHeads(GraphBuilder g, Value x, int64_t groups) {
  ArrayRef<int64_t> shape = shapeOf(x);
  return g.reshape(x,
                   {shape[0], groups, shape[1] / groups * shape[2], shape[3]});
}

/// `p` with zeros where a query sees no key: s > t + S - T.
Value hideFuture(GraphBuilder g, Value p) {
  ArrayRef<int64_t> shape = shapeOf(p);
  auto positions = [&](int64_t dim) -> Value {
    return IotaOp::create(g.builder, g.loc,
                          RankedTensorType::get(shape, g.builder.getI64Type()),
                          dim, TypeAttr());
  };
  Value query = positions(2), key = positions(3);
  auto type = tensorType(query);
  query = g.add(query, g.constant(type, double(shape[3] - shape[2])));
  return g.select(g.compare(CompareKind::le, key, query), p,
                  g.constantLike(p, 0.0));
}

/// dS = P * (dout v^T - rowsum(dout * out)), summed over what the mask repeats.
/// P is made again, whole: masks are as large, or shared by few heads.
Value maskGrad(GraphBuilder g, AttentionOp op, Value dout) {
  Type element = op.getLse().getType().getElementType();
  auto wide = [&](Value x) { return g.convert(x, element); };
  int64_t groups = shapeOf(op.getK())[1];
  SmallVector<int64_t> shape(shapeOf(op.getQ()));
  shape[3] = shapeOf(op.getK())[2];
  auto product = [&](Value rows, Value keys) {
    return g.reshape(g.matmul(groupHeads(g, wide(rows), groups), wide(keys),
                              false, /*tb=*/true),
                     shape);
  };
  auto perRow = [&](Value x) { return g.broadcast(x, shape, {0, 1, 2}); };
  Value scores =
      g.scale(product(op.getQ(), op.getK()), op.getScale().convertToDouble());
  scores = g.add(scores, g.broadcast(wide(op.getMask()), shape, {0, 1, 2, 3}));
  // A row that sees no key has a log-sum-exp of -inf and attends to nothing.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value seesNone = g.compare(CompareKind::eq, op.getLse(),
                             g.constantLike(op.getLse(), -kInfinity));
  Value lse =
      g.select(seesNone, g.constantLike(op.getLse(), kInfinity), op.getLse());
  Value p = g.unary(UnaryKind::exp, g.sub(scores, perRow(lse)));
  if (op.getCausal())
    p = hideFuture(g, p);
  Value delta =
      g.reduce(ReduceKind::sum, g.mul(wide(dout), wide(op.getOut())), {3});
  Value ds = g.mul(p, g.sub(product(dout, op.getV()), perRow(delta)));
  SmallVector<int64_t> repeated;
  for (auto [dim, size] : llvm::enumerate(shapeOf(op.getMask())))
    if (size != shape[dim])
      repeated.push_back(dim);
  Value sums = repeated.empty() ? ds : g.reduce(ReduceKind::sum, ds, repeated);
  return g.convert(g.reshape(sums, shapeOf(op.getMask())),
                   elementTypeOf(op.getMask()));
}

struct AttentionVjp : VjpOpInterface::ExternalModel<AttentionVjp, AttentionOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto attention = cast<AttentionOp>(op);
    operandGrads.assign(op->getNumOperands(), Value());
    if (resultGrads[1])
      return op->emitError("the log-sum-exp of attention has no gradient");
    Value q = attention.getQ(), k = attention.getK(), v = attention.getV();
    auto grad = AttentionGradOp::create(
        builder, op->getLoc(), q.getType(), k.getType(), v.getType(), q, k, v,
        attention.getOut(), attention.getLse(), resultGrads[0],
        attention.getMask(), attention.getScaleAttr(),
        attention.getCausalAttr());
    for (unsigned i = 0; i < 3; ++i)
      if (wanted[i])
        operandGrads[i] = grad->getResult(i);
    if (wanted.size() > 3 && wanted[3])
      operandGrads[3] = maskGrad(GraphBuilder(builder, op->getLoc()), attention,
                                 resultGrads[0]);
    return success();
  }
};

/// rot(x) of dpc.rope: with a cosine of 0 and a sine of 1.
Value rotHalf(GraphBuilder g, RopeOp op, Value x) {
  return RopeOp::create(g.builder, g.loc, x.getType(), x,
                        g.constantLike(op.getCos(), 0.0),
                        g.constantLike(op.getSin(), 1.0), /*inverse=*/false);
}

/// a * b summed over what shares the table's rows.
Value tableGrad(GraphBuilder g, RopeOp op, Value a, Value b) {
  int64_t rank = shapeOf(op.getX()).size();
  auto batch = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  Value product = g.mul(a, b);
  return batch.empty() ? product : g.reduce(ReduceKind::sum, product, batch);
}

struct RopeVjp : VjpOpInterface::ExternalModel<RopeVjp, RopeOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto rope = cast<RopeOp>(op);
    operandGrads.assign(3, Value());
    GraphBuilder g(builder, op->getLoc());
    if (wanted[1])
      operandGrads[1] = tableGrad(g, rope, rope.getX(), resultGrads[0]);
    if (wanted[2]) {
      // x times the sine's map alone: rot(x), or rot(dy) of the inverse.
      bool inverse = rope.getInverse();
      Value turned = rotHalf(g, rope, inverse ? resultGrads[0] : rope.getX());
      operandGrads[2] =
          tableGrad(g, rope, turned, inverse ? rope.getX() : resultGrads[0]);
    }
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
