//===- Contraction.cpp - Gradients of matmul and attention ----------------===//
#include "ir/Attributes.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Fp8.h"
#include "passes/graph/vjp/Vjp.h"

#include <limits>

using namespace mlir;
using namespace dpc;
using vjp::Request;

static Value flattenRows(GraphBuilder g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  return g.reshape(x, {llvm::product_of(shape.drop_back()), shape.back()});
}

/// With y = op(a) op(b), every gradient is one matmul in the layout of its
/// operand, so no transpose is needed:
///
///   a [m,k]: da = dy op(b)^T         a [k,m]: da = op(b) dy^T
///   b [k,n]: db = op(a)^T dy         b [n,k]: db = dy^T op(a)
///
/// If all batches share a matrix b, its gradient is summed over the batches:
/// the batches join the contracted rows, so the matmul computes the sum. The
/// gradient is a partial sum if the batches are split.
static LogicalResult matmulVjp(GraphBuilder g, MatmulOp op, const Request &r) {
  Value a = op.getA(), b = op.getB();
  // A matmul of bf16 may have an f32 result.
  Value dy = g.convert(r.resultGrads[0], elementTypeOf(a));
  bool ta = op.getTa(), tb = op.getTb();
  // The gradients of an fp8 matmul run in fp8 too.
  auto product = [&](Value left, Value right, bool tLeft, bool tRight) {
    Value made = g.matmul(left, right, tLeft, tRight);
    if (op->hasAttr(attr::kFp8))
      markFp8(made.getDefiningOp<MatmulOp>(), left == dy, right == dy);
    return made;
  };
  r.set(0, [&] {
    return ta ? product(b, dy, tb, true) : product(dy, b, false, !tb);
  });
  r.set(1, [&] {
    if (shapeOf(a).size() > shapeOf(b).size()) {
      a = flattenRows(g, a);
      dy = flattenRows(g, dy);
    }
    return tb ? product(dy, a, true, ta) : product(a, dy, !ta, false);
  });
  return success();
}

/// Sums `x` [i.., j.., columns] over the choices j, so that it has the shape of
/// `rows` [i.., columns].
static Value sumChoices(GraphBuilder g, Value x, Value rows) {
  int64_t first = shapeOf(rows).size() - 1, last = shapeOf(x).size() - 1;
  auto choices = llvm::to_vector(llvm::seq(first, last));
  return choices.empty() ? x : g.reduce(ReduceKind::sum, x, choices);
}

/// With y[r] = x[r] op(w[e]), both gradients are products of experts in the
/// layout of their operands:
///
///   dx[r] = dy[r] op(w[e])^T, summed over the choices that share a row of x
///   w [k,n]: dw[e] = sum x[r]^T dy[r]      w [n,k]: dw[e] = sum dy[r]^T x[r]
static LogicalResult expertMatmulVjp(GraphBuilder g, ExpertMatmulOp op,
                                     const Request &r) {
  Value x = op.getX(), ids = op.getIds(), w = op.getW();
  Value dy = g.convert(r.resultGrads[0], elementTypeOf(x));
  r.set(0, [&] {
    SmallVector<int64_t> shape(shapeOf(ids));
    shape.push_back(shapeOf(x).back());
    auto type = RankedTensorType::get(shape, elementTypeOf(x));
    Value dx = ExpertMatmulOp::create(g.builder, g.loc, type, dy, ids, w,
                                      !op.getTb(), TypeAttr());
    return sumChoices(g, dx, x);
  });
  r.set(2, [&]() -> Value {
    auto [a, b] = op.getTb() ? std::pair(dy, x) : std::pair(x, dy);
    return ExpertMatmulGradOp::create(g.builder, g.loc, w.getType(), a, ids, b,
                                      TypeAttr());
  });
  return success();
}

/// Reshapes `x` [B, H, T, D] to [B, G, H / G * T, D], which merges the rows of
/// all query heads that share a key head.
static Value groupHeads(GraphBuilder g, Value x, int64_t groups) {
  ArrayRef<int64_t> shape = shapeOf(x);
  return g.reshape(x,
                   {shape[0], groups, shape[1] / groups * shape[2], shape[3]});
}

/// Zeroes `p` [B, H, T, S] where `op` hides the key because of its position.
static Value hideOthers(GraphBuilder g, AttentionOp op, Value p) {
  ArrayRef<int64_t> shape = shapeOf(p);
  Value query = g.iota(shape, 2), key = g.iota(shape, 3);
  auto type = tensorType(query);
  query = g.add(query, g.constant(type, double(shape[3] - shape[2])));
  auto keep = [&](CompareKind kind, Value bound) {
    p = g.select(g.compare(kind, key, bound), p, g.constantLike(p, 0.0));
  };
  if (op.getCausal())
    keep(CompareKind::le, query);
  if (std::optional<int64_t> window = op.getWindow())
    keep(CompareKind::gt, g.sub(query, g.constant(type, double(*window))));
  return p;
}

/// Builds the gradient of the mask: dS = P * (dout v^T - rowsum(dout * out)),
/// summed over the dimensions along which the mask is repeated. Stores all of
/// P [B, H, T, S], even if the mask is smaller because it is repeated.
static Value maskGrad(GraphBuilder g, AttentionOp op, Value dout) {
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
  // If all keys of a row are hidden, its log-sum-exp is -inf and P = 0.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value seesNone = g.compare(CompareKind::eq, op.getLse(),
                             g.constantLike(op.getLse(), -kInfinity));
  Value lse =
      g.select(seesNone, g.constantLike(op.getLse(), kInfinity), op.getLse());
  Value p = g.unary(UnaryKind::exp, g.sub(scores, perRow(lse)));
  p = hideOthers(g, op, p);
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

/// Builds the gradient of the sinks [H]. The probability of the sink of a row
/// is exp(sink - lse), and its value is 0, so that the gradient of its score is
/// -exp(sink - lse) * rowsum(dout * out).
static Value sinksGrad(GraphBuilder g, AttentionOp op, Value dout) {
  Type element = op.getLse().getType().getElementType();
  Value sinks = g.broadcast(op.getSinks(), shapeOf(op.getLse()), {1});
  Value p = g.unary(UnaryKind::exp, g.sub(sinks, op.getLse()));
  Value delta = g.reduce(
      ReduceKind::sum,
      g.mul(g.convert(dout, element), g.convert(op.getOut(), element)), {3});
  return g.neg(g.reduce(ReduceKind::sum, g.mul(p, delta), {0, 2}));
}

static LogicalResult attentionVjp(GraphBuilder g, AttentionOp op,
                                  const Request &r) {
  if (r.resultGrads[1])
    return op->emitError("the log-sum-exp of attention has no gradient");
  Value q = op.getQ(), k = op.getK(), v = op.getV(), dout = r.resultGrads[0];
  auto grad = AttentionGradOp::create(
      g.builder, g.loc, q.getType(), k.getType(), v.getType(), q, k, v,
      op.getOut(), op.getLse(), dout, op.getMask(), op.getScaleAttr(),
      op.getCausalAttr(), op.getWindowAttr());
  for (unsigned i : {0, 1, 2})
    r.set(i, [&] { return grad->getResult(i); });
  unsigned next = 3;
  if (op.getMask())
    r.set(next++, [&] { return maskGrad(g, op, dout); });
  if (op.getSinks())
    r.set(next, [&] { return sinksGrad(g, op, dout); });
  return success();
}

/// Builds rot(x) of dpc.rope, as a dpc.rope with a cosine of 0 and a sine of 1.
static Value rotHalf(GraphBuilder g, RopeOp op, Value x) {
  return RopeOp::create(g.builder, g.loc, x.getType(), x,
                        g.constantLike(op.getCos(), 0.0),
                        g.constantLike(op.getSin(), 1.0), /*inverse=*/false);
}

/// Builds a * b, summed over the leading dimensions, which share the table.
static Value tableGrad(GraphBuilder g, RopeOp op, Value a, Value b) {
  int64_t rank = shapeOf(op.getX()).size();
  auto batch = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  Value product = g.mul(a, b);
  return batch.empty() ? product : g.reduce(ReduceKind::sum, product, batch);
}

static LogicalResult ropeVjp(GraphBuilder g, RopeOp op, const Request &r) {
  Value x = op.getX(), dy = r.resultGrads[0];
  bool inverse = op.getInverse();
  r.set(1, [&] { return tableGrad(g, op, x, dy); });
  // y contains sin * rot(x), or rot(sin * x) if `inverse`.
  r.set(2, [&] {
    Value turned = rotHalf(g, op, inverse ? dy : x);
    return tableGrad(g, op, turned, inverse ? x : dy);
  });
  r.set(0, [&]() -> Value {
    return RopeOp::create(g.builder, g.loc, x.getType(), dy, op.getCos(),
                          op.getSin(), !inverse);
  });
  return success();
}

void vjp::attachContraction(MLIRContext &context) {
  attach<matmulVjp, expertMatmulVjp, attentionVjp, ropeVjp>(context);
}
