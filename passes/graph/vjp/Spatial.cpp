//===- Spatial.cpp - Gradients of conv, pool and batch norm ---------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Grads;

namespace {

/// The three convolutions are one trilinear form sum(dy * conv(x, w)) read in
/// three ways, so the gradients of each are the other two.
template <typename Like>
Value conv(OpBuilder &builder, Like like, Type type, Value x, Value w) {
  return ConvOp::create(builder, like.getLoc(), type, x, w, like.getStrides(),
                        like.getPads(), like.getDilations());
}
template <typename Like>
Value gradInput(OpBuilder &builder, Like like, Type type, Value dy, Value w) {
  return ConvGradInputOp::create(builder, like.getLoc(), type, dy, w,
                                 like.getStrides(), like.getPads(),
                                 like.getDilations());
}
template <typename Like>
Value gradFilter(OpBuilder &builder, Like like, Type type, Value dy, Value x) {
  return ConvGradFilterOp::create(builder, like.getLoc(), type, dy, x,
                                  like.getStrides(), like.getPads(),
                                  like.getDilations());
}

struct ConvVjp : VjpOpInterface::ExternalModel<ConvVjp, ConvOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto own = cast<ConvOp>(op);
    Value x = own.getX(), w = own.getW(), dy = resultGrads[0];
    operandGrads.assign(2, Value());
    if (wanted[0])
      operandGrads[0] = gradInput(builder, own, x.getType(), dy, w);
    if (wanted[1])
      operandGrads[1] = gradFilter(builder, own, w.getType(), dy, x);
    return success();
  }
};

struct ConvGradInputVjp
    : VjpOpInterface::ExternalModel<ConvGradInputVjp, ConvGradInputOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto own = cast<ConvGradInputOp>(op);
    Value dy = own.getDy(), w = own.getW(), x = resultGrads[0];
    operandGrads.assign(2, Value());
    if (wanted[0])
      operandGrads[0] = conv(builder, own, dy.getType(), x, w);
    if (wanted[1])
      operandGrads[1] = gradFilter(builder, own, w.getType(), dy, x);
    return success();
  }
};

struct ConvGradFilterVjp
    : VjpOpInterface::ExternalModel<ConvGradFilterVjp, ConvGradFilterOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto own = cast<ConvGradFilterOp>(op);
    Value dy = own.getDy(), x = own.getX(), w = resultGrads[0];
    operandGrads.assign(2, Value());
    if (wanted[0])
      operandGrads[0] = conv(builder, own, dy.getType(), x, w);
    if (wanted[1])
      operandGrads[1] = gradInput(builder, own, x.getType(), dy, w);
    return success();
  }
};

struct MaxPoolVjp : VjpOpInterface::ExternalModel<MaxPoolVjp, MaxPoolOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto pool = cast<MaxPoolOp>(op);
    operandGrads.assign(1, Value());
    if (wanted[0] && resultGrads[0])
      operandGrads[0] = MaxPoolGradOp::create(
          builder, op->getLoc(), pool.getX().getType(), resultGrads[0],
          pool.getIndex(), pool.getKernel(), pool.getStrides(), pool.getPads(),
          pool.getDilations());
    return success();
  }
};

struct BatchNormVjp : VjpOpInterface::ExternalModel<BatchNormVjp, BatchNormOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto norm = cast<BatchNormOp>(op);
    if (resultGrads[1] || resultGrads[2])
      return op->emitError("the statistics of a batch norm have no gradient");
    auto grad = BatchNormGradOp::create(
        builder, op->getLoc(), norm.getX().getType(), norm.getScale().getType(),
        norm.getBias().getType(), norm.getX(), norm.getMean(), norm.getVar(),
        resultGrads[0], norm.getScale(), norm.getEps());
    operandGrads.assign(grad->result_begin(), grad->result_end());
    for (auto [i, isWanted] : llvm::enumerate(wanted))
      if (!isWanted)
        operandGrads[i] = Value();
    return success();
  }
};

} // namespace

void vjp::attachSpatial(MLIRContext &context) {
  ConvOp::attachInterface<ConvVjp>(context);
  ConvGradInputOp::attachInterface<ConvGradInputVjp>(context);
  ConvGradFilterOp::attachInterface<ConvGradFilterVjp>(context);
  MaxPoolOp::attachInterface<MaxPoolVjp>(context);
  BatchNormOp::attachInterface<BatchNormVjp>(context);
}
