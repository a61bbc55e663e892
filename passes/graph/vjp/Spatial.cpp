//===- Spatial.cpp - Gradients of conv, pool and batch norm ---------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Request;

/// Builds the op `Result` of `a` and `b`, which computes the gradient of
/// `operand`. It has the window of `like` and the type of `operand`.
template <typename Result, typename Like>
static Value grad(GraphBuilder g, Like like, Value operand, Value a, Value b) {
  return Result::create(g.builder, g.loc, operand.getType(), a, b,
                        like.getStrides(), like.getPads(), like.getDilations());
}

// The three convolutions are the derivatives of the trilinear form sum(dy *
// conv(x, w)), so the gradients of each convolution are the other two.

static LogicalResult convVjp(GraphBuilder g, ConvOp op, const Request &r) {
  Value x = op.getX(), w = op.getW(), dy = r.resultGrads[0];
  r.set(0, [&] { return grad<ConvGradInputOp>(g, op, x, dy, w); });
  r.set(1, [&] { return grad<ConvGradFilterOp>(g, op, w, dy, x); });
  return success();
}

static LogicalResult convGradInputVjp(GraphBuilder g, ConvGradInputOp op,
                                      const Request &r) {
  Value dy = op.getDy(), w = op.getW(), x = r.resultGrads[0];
  r.set(0, [&] { return grad<ConvOp>(g, op, dy, x, w); });
  r.set(1, [&] { return grad<ConvGradFilterOp>(g, op, w, dy, x); });
  return success();
}

static LogicalResult convGradFilterVjp(GraphBuilder g, ConvGradFilterOp op,
                                       const Request &r) {
  Value dy = op.getDy(), x = op.getX(), w = r.resultGrads[0];
  r.set(0, [&] { return grad<ConvOp>(g, op, dy, x, w); });
  r.set(1, [&] { return grad<ConvGradInputOp>(g, op, x, dy, w); });
  return success();
}

static Value maxPoolGrad(GraphBuilder g, MaxPoolOp op, Value dy) {
  return MaxPoolGradOp::create(g.builder, g.loc, op.getX().getType(), dy,
                               op.getIndex(), op.getKernel(), op.getStrides(),
                               op.getPads(), op.getDilations());
}

static LogicalResult batchNormVjp(GraphBuilder g, BatchNormOp op,
                                  const Request &r) {
  if (r.resultGrads[1] || r.resultGrads[2])
    return op->emitError("the statistics of a batch norm have no gradient");
  auto grad = BatchNormGradOp::create(
      g.builder, g.loc, op.getX().getType(), op.getScale().getType(),
      op.getBias().getType(), op.getX(), op.getMean(), op.getVar(),
      r.resultGrads[0], op.getScale(), op.getEps());
  for (unsigned i : {0, 1, 2})
    r.set(i, [&] { return grad->getResult(i); });
  return success();
}

void vjp::attachSpatial(MLIRContext &context) {
  attach<convVjp, convGradInputVjp, convGradFilterVjp, maxPoolGrad,
         batchNormVjp>(context);
}
