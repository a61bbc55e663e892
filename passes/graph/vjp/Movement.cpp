//===- Movement.cpp - Gradients of ops that move data ---------------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Grads;

namespace {

/// A model of an op with one operand whose gradient never fails: `Derived`
/// gives `Value grad(GraphBuilder, Op, Value dy)`.
template <typename Derived, typename Op>
struct OneOperandVjp
    : VjpOpInterface::template ExternalModel<OneOperandVjp<Derived, Op>, Op> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    operandGrads.assign(1, Value());
    if (wanted[0])
      operandGrads[0] = Derived::grad(GraphBuilder(builder, op->getLoc()),
                                      cast<Op>(op), resultGrads[0]);
    return success();
  }
};

struct BroadcastVjp : OneOperandVjp<BroadcastVjp, BroadcastOp> {
  static Value grad(GraphBuilder g, BroadcastOp op, Value dy) {
    ArrayRef<int64_t> from = shapeOf(op.getX()), to = shapeOf(dy);
    SmallVector<bool> repeated(to.size(), true);
    for (auto [i, dim] : llvm::enumerate(op.getDims()))
      repeated[dim] = from[i] != to[dim];
    SmallVector<int64_t> dims;
    for (auto [dim, isRepeated] : llvm::enumerate(repeated))
      if (isRepeated)
        dims.push_back(dim);
    return g.reshape(g.reduce(ReduceKind::sum, dy, dims), from);
  }
};

struct ReshapeVjp : OneOperandVjp<ReshapeVjp, ReshapeOp> {
  static Value grad(GraphBuilder g, ReshapeOp op, Value dy) {
    return g.reshape(dy, shapeOf(op.getX()));
  }
};

struct TransposeVjp : OneOperandVjp<TransposeVjp, TransposeOp> {
  static Value grad(GraphBuilder g, TransposeOp op, Value dy) {
    SmallVector<int64_t> inverse(op.getPerm().size());
    for (auto [i, dim] : llvm::enumerate(op.getPerm()))
      inverse[dim] = i;
    return g.transpose(dy, inverse);
  }
};

struct SliceVjp : OneOperandVjp<SliceVjp, SliceOp> {
  static Value grad(GraphBuilder g, SliceOp op, Value dy) {
    return g.pad(dy, shapeOf(op.getX()), op.getOffsets(), op.getStrides());
  }
};

struct PadVjp : OneOperandVjp<PadVjp, PadOp> {
  static Value grad(GraphBuilder g, PadOp op, Value dy) {
    return g.slice(dy, shapeOf(op.getX()), op.getLow(), op.getStrides());
  }
};

struct ConcatVjp : VjpOpInterface::ExternalModel<ConcatVjp, ConcatOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto concat = cast<ConcatOp>(op);
    GraphBuilder g(builder, op->getLoc());
    int64_t dim = concat.getDim(), rank = shapeOf(resultGrads[0]).size();
    SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
    operandGrads.assign(op->getNumOperands(), Value());
    for (auto [i, part] : llvm::enumerate(concat.getParts())) {
      if (wanted[i])
        operandGrads[i] =
            g.slice(resultGrads[0], shapeOf(part), offsets, strides);
      offsets[dim] += shapeOf(part)[dim];
    }
    return success();
  }
};

struct EmbeddingVjp : VjpOpInterface::ExternalModel<EmbeddingVjp, EmbeddingOp> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ArrayRef<Value> resultGrads, ArrayRef<bool> wanted,
                         Grads &operandGrads) const {
    auto embedding = cast<EmbeddingOp>(op);
    operandGrads.assign(2, Value());
    if (!wanted[0])
      return success();
    // A row that is picked often is a long sum.
    GraphBuilder g(builder, op->getLoc());
    RankedTensorType table = embedding.getTable().getType();
    Type wide = sumType(table.getElementType());
    Value sums = EmbeddingGradOp::create(
        builder, op->getLoc(), RankedTensorType::get(table.getShape(), wide),
        embedding.getIds(), g.convert(resultGrads[0], wide), TypeAttr());
    operandGrads[0] = g.convert(sums, table.getElementType());
    return success();
  }
};

} // namespace

void vjp::attachMovement(MLIRContext &context) {
  BroadcastOp::attachInterface<BroadcastVjp>(context);
  ReshapeOp::attachInterface<ReshapeVjp>(context);
  TransposeOp::attachInterface<TransposeVjp>(context);
  SliceOp::attachInterface<SliceVjp>(context);
  PadOp::attachInterface<PadVjp>(context);
  ConcatOp::attachInterface<ConcatVjp>(context);
  EmbeddingOp::attachInterface<EmbeddingVjp>(context);
}
