//===- Rows.cpp - Gradients of reductions and row ops ---------------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Request;

/// Repeats `dy`, the gradient of a reduction's result, along the reduced
/// dimensions.
static Value unreduce(GraphBuilder g, ReduceOp op, Value dy) {
  SmallVector<int64_t> kept;
  for (int64_t dim : llvm::seq<int64_t>(0, shapeOf(op.getX()).size()))
    if (!llvm::is_contained(op.getDims(), dim))
      kept.push_back(dim);
  return g.broadcast(dy, shapeOf(op.getX()), kept);
}

/// The gradient of an element x is the product of all other elements. Let p be
/// the product of all nonzero elements. If no element is zero, the gradient is
/// p / x. If exactly one element is zero, its gradient is p, and all others are
/// 0.
static Value prodGrad(GraphBuilder g, ReduceOp op, Value dy) {
  Value x = op.getX();
  ArrayRef<int64_t> dims = op.getDims();
  Value zero = g.constantLike(x, 0.0), one = g.constantLike(x, 1.0);
  Value isZero = g.compare(CompareKind::eq, x, zero);
  Value others = g.select(isZero, one, x);
  Value product = unreduce(g, op, g.reduce(ReduceKind::prod, others, dims));
  Value zeros = unreduce(
      g, op, g.reduce(ReduceKind::sum, g.select(isZero, one, zero), dims));
  // The count of zeros includes the element if it is zero.
  Value expected = g.select(isZero, one, zero);
  Value slope = g.select(g.compare(CompareKind::eq, zeros, expected),
                         g.div(product, others), zero);
  return g.mul(slope, unreduce(g, op, dy));
}

static Value reduceGrad(GraphBuilder g, ReduceOp op, Value dy) {
  if (op.getKind() == ReduceKind::prod)
    return prodGrad(g, op, dy);
  if (op.getKind() == ReduceKind::sum)
    return unreduce(g, op, dy);
  // Equal maxima or minima share the gradient evenly, as in PyTorch.
  Value x = op.getX();
  Value chosen =
      g.convert(g.compare(CompareKind::eq, x, unreduce(g, op, op.getResult())),
                elementTypeOf(x));
  Value count = g.reduce(ReduceKind::sum, chosen, op.getDims());
  Value share = g.div(dy, count);
  return g.mul(chosen, unreduce(g, op, share));
}

static Value softmaxGrad(GraphBuilder g, SoftmaxOp op, Value dy) {
  return SoftmaxGradOp::create(g.builder, g.loc, op.getType(), op.getResult(),
                               dy);
}

static Value topKGrad(GraphBuilder g, TopKOp op, Value dvalues) {
  SmallVector<int64_t> shape(shapeOf(op.getIndices()));
  int64_t rank = shape.size();
  shape.push_back(shapeOf(op.getX()).back());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  Value places = g.iota(shape, rank);
  Value here = g.compare(CompareKind::eq,
                         g.broadcast(op.getIndices(), shape, dims), places);
  Value grads = g.broadcast(dvalues, shape, dims);
  return g.reduce(ReduceKind::sum,
                  g.select(here, grads, g.constantLike(grads, 0.0)),
                  {rank - 1});
}

static Value cumSumGrad(GraphBuilder g, CumSumOp op, Value dy) {
  return CumSumOp::create(g.builder, g.loc, op.getType(), dy, op.getExclusive(),
                          !op.getReverse());
}

static LogicalResult normVjp(GraphBuilder g, NormOp op, const Request &r) {
  if (r.resultGrads[1] || r.resultGrads[2])
    return op->emitError("the mean and rstd of a norm have no gradient");
  Value x = op.getX(), scale = op.getScale(), bias = op.getBias();
  auto sums =
      RankedTensorType::get({shapeOf(x).back()}, sumType(elementTypeOf(x)));
  auto grad = NormGradOp::create(g.builder, g.loc, x.getType(), sums, sums,
                                 op.getKind(), x, op.getMean(), op.getRstd(),
                                 r.resultGrads[0], scale);
  r.set(0, [&] { return grad.getDx(); });
  unsigned next = 1;
  if (scale)
    r.set(next++,
          [&] { return g.convert(grad.getDscale(), elementTypeOf(scale)); });
  if (bias)
    r.set(next,
          [&] { return g.convert(grad.getDbias(), elementTypeOf(bias)); });
  return success();
}

static LogicalResult crossEntropyVjp(GraphBuilder g, CrossEntropyOp op,
                                     const Request &r) {
  if (r.resultGrads[1])
    return op->emitError("the log-sum-exp of a cross entropy has no gradient");
  r.set(0, [&]() -> Value {
    // cross_entropy_grad requires dloss = 0 on ignored rows.
    Value labels = op.getLabels(), dy = r.resultGrads[0];
    Value ignored = g.compare(
        CompareKind::eq, labels,
        g.constantLike(labels, static_cast<int64_t>(op.getIgnoreIndex())));
    Value dloss = g.select(ignored, g.constantLike(dy, 0.0), dy);
    return CrossEntropyGradOp::create(g.builder, g.loc,
                                      op.getLogits().getType(), op.getLogits(),
                                      labels, op.getLse(), dloss, TypeAttr());
  });
  return success();
}

void vjp::attachRows(MLIRContext &context) {
  attach<reduceGrad, softmaxGrad, topKGrad, cumSumGrad, normVjp,
         crossEntropyVjp>(context);
}
