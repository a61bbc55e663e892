//===- Rows.cpp - Gradients of reductions and row ops ---------------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Grads;

namespace {

/// dy, of the shape of a reduction's result, repeated over what was reduced.
Value unreduce(GraphBuilder g, ReduceOp op, Value dy) {
  SmallVector<int64_t> kept;
  for (int64_t dim : llvm::seq<int64_t>(0, shapeOf(op.getX()).size()))
    if (!llvm::is_contained(op.getDims(), dim))
      kept.push_back(dim);
  return g.broadcast(dy, shapeOf(op.getX()), kept);
}

/// The product of the other elements, also where some are zero: with p the
/// product of those that are not, p / x where there are no zeros, p at the only
/// zero, and 0 everywhere else.
Value prodGrad(GraphBuilder g, ReduceOp op, Value dy) {
  Value x = op.getX();
  ArrayRef<int64_t> dims = op.getDims();
  Value zero = g.constantLike(x, 0.0), one = g.constantLike(x, 1.0);
  Value isZero = g.compare(CompareKind::eq, x, zero);
  Value others = g.select(isZero, one, x);
  Value product = unreduce(g, op, g.reduce(ReduceKind::prod, others, dims));
  Value zeros = unreduce(
      g, op, g.reduce(ReduceKind::sum, g.select(isZero, one, zero), dims));
  // Where x is zero, itself counts.
  Value expected = g.select(isZero, one, zero);
  Value slope = g.select(g.compare(CompareKind::eq, zeros, expected),
                         g.div(product, others), zero);
  return g.mul(slope, unreduce(g, op, dy));
}

struct ReduceVjp : VjpOpInterface::ExternalModel<ReduceVjp, ReduceOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto reduce = cast<ReduceOp>(op);
    GraphBuilder g(builder, op->getLoc());
    operandGrads.assign(1, Value());
    if (!wanted[0])
      return success();
    if (reduce.getKind() == ReduceKind::prod) {
      operandGrads[0] = prodGrad(g, reduce, resultGrads[0]);
      return success();
    }
    if (reduce.getKind() == ReduceKind::sum) {
      operandGrads[0] = unreduce(g, reduce, resultGrads[0]);
      return success();
    }
    // Equal extrema share the gradient evenly, as in PyTorch.
    Value x = reduce.getX();
    Value chosen = g.convert(
        g.compare(CompareKind::eq, x, unreduce(g, reduce, reduce.getResult())),
        elementTypeOf(x));
    Value count = g.reduce(ReduceKind::sum, chosen, reduce.getDims());
    Value share = g.div(resultGrads[0], count);
    operandGrads[0] = g.mul(chosen, unreduce(g, reduce, share));
    return success();
  }
};

struct SoftmaxVjp : VjpOpInterface::ExternalModel<SoftmaxVjp, SoftmaxOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    operandGrads.assign(1, Value());
    if (wanted[0])
      operandGrads[0] = SoftmaxGradOp::create(builder, op->getLoc(),
                                              op->getResult(0).getType(),
                                              op->getResult(0), resultGrads[0]);
    return success();
  }
};

/// Each picked element passes its gradient to the place it came from: a sum
/// over the picks of dvalues where the index is the place.
struct TopKVjp : VjpOpInterface::ExternalModel<TopKVjp, TopKOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto topk = cast<TopKOp>(op);
    operandGrads.assign(1, Value());
    if (!wanted[0] || !resultGrads[0])
      return success();
    GraphBuilder g(builder, op->getLoc());
    SmallVector<int64_t> shape(shapeOf(topk.getIndices()));
    int64_t rank = shape.size();
    shape.push_back(shapeOf(topk.getX()).back());
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    Value places = IotaOp::create(
        builder, op->getLoc(),
        RankedTensorType::get(shape, builder.getI64Type()), rank, TypeAttr());
    Value here = g.compare(CompareKind::eq,
                           g.broadcast(topk.getIndices(), shape, dims), places);
    Value grads = g.broadcast(resultGrads[0], shape, dims);
    operandGrads[0] =
        g.reduce(ReduceKind::sum,
                 g.select(here, grads, g.constantLike(grads, 0.0)), {rank - 1});
    return success();
  }
};

struct CumSumVjp : VjpOpInterface::ExternalModel<CumSumVjp, CumSumOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto sum = cast<CumSumOp>(op);
    operandGrads.assign(1, Value());
    if (wanted[0])
      operandGrads[0] =
          CumSumOp::create(builder, op->getLoc(), sum.getType(), resultGrads[0],
                           sum.getExclusive(), !sum.getReverse());
    return success();
  }
};

struct NormVjp : VjpOpInterface::ExternalModel<NormVjp, NormOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto norm = cast<NormOp>(op);
    operandGrads.assign(op->getNumOperands(), Value());
    if (resultGrads[1] || resultGrads[2])
      return op->emitError("the mean and rstd of a norm have no gradient");
    Value x = norm.getX(), dy = resultGrads[0];
    Type element = elementTypeOf(x);
    auto sums = RankedTensorType::get({shapeOf(x).back()}, sumType(element));
    auto grad = NormGradOp::create(builder, op->getLoc(), x.getType(), sums,
                                   sums, norm.getKind(), x, norm.getMean(),
                                   norm.getRstd(), dy, norm.getScale());
    GraphBuilder g(builder, op->getLoc());
    operandGrads[0] = grad.getDx();
    unsigned next = 1;
    if (norm.getScale() && wanted[next])
      operandGrads[next] =
          g.convert(grad.getDscale(), elementTypeOf(norm.getScale()));
    next += norm.getScale() ? 1 : 0;
    if (norm.getBias() && wanted[next])
      operandGrads[next] =
          g.convert(grad.getDbias(), elementTypeOf(norm.getBias()));
    for (auto [i, isWanted] : llvm::enumerate(wanted))
      if (!isWanted)
        operandGrads[i] = Value();
    return success();
  }
};

struct CrossEntropyVjp
    : VjpOpInterface::ExternalModel<CrossEntropyVjp, CrossEntropyOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto loss = cast<CrossEntropyOp>(op);
    operandGrads.assign(2, Value());
    if (resultGrads[1])
      return op->emitError(
          "the log-sum-exp of a cross entropy has no gradient");
    if (!wanted[0])
      return success();
    // cross_entropy_grad takes dloss = 0 on ignored rows.
    GraphBuilder g(builder, op->getLoc());
    Value labels = loss.getLabels(), dy = resultGrads[0];
    Value ignored = g.compare(
        CompareKind::eq, labels,
        g.constantLike(labels, static_cast<int64_t>(loss.getIgnoreIndex())));
    Value dloss = g.select(ignored, g.constantLike(dy, 0.0), dy);
    operandGrads[0] = CrossEntropyGradOp::create(
        builder, op->getLoc(), loss.getLogits().getType(), loss.getLogits(),
        labels, loss.getLse(), dloss, TypeAttr());
    return success();
  }
};

} // namespace

void vjp::attachRows(MLIRContext &context) {
  ReduceOp::attachInterface<ReduceVjp>(context);
  SoftmaxOp::attachInterface<SoftmaxVjp>(context);
  TopKOp::attachInterface<TopKVjp>(context);
  CumSumOp::attachInterface<CumSumVjp>(context);
  NormOp::attachInterface<NormVjp>(context);
  CrossEntropyOp::attachInterface<CrossEntropyVjp>(context);
}
