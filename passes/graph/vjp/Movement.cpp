//===- Movement.cpp - Gradients of ops that move data ---------------------===//
#include "passes/graph/vjp/Vjp.h"

using namespace mlir;
using namespace dpc;
using vjp::Request;

static Value broadcastGrad(GraphBuilder g, BroadcastOp op, Value dy) {
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

static Value reshapeGrad(GraphBuilder g, ReshapeOp op, Value dy) {
  return g.reshape(dy, shapeOf(op.getX()));
}

static Value transposeGrad(GraphBuilder g, TransposeOp op, Value dy) {
  SmallVector<int64_t> inverse(op.getPerm().size());
  for (auto [i, dim] : llvm::enumerate(op.getPerm()))
    inverse[dim] = i;
  return g.transpose(dy, inverse);
}

static Value sliceGrad(GraphBuilder g, SliceOp op, Value dy) {
  return g.pad(dy, shapeOf(op.getX()), op.getOffsets(), op.getStrides());
}

static Value padGrad(GraphBuilder g, PadOp op, Value dy) {
  return g.slice(dy, shapeOf(op.getX()), op.getLow(), op.getStrides());
}

static LogicalResult concatVjp(GraphBuilder g, ConcatOp op, const Request &r) {
  int64_t dim = op.getDim(), rank = op.getType().getRank();
  SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
  for (auto [i, part] : llvm::enumerate(op.getParts())) {
    r.set(i, [&] {
      return g.slice(r.resultGrads[0], shapeOf(part), offsets, strides);
    });
    offsets[dim] += shapeOf(part)[dim];
  }
  return success();
}

/// The gradient of a row is the sum over all occurrences of the row. A row may
/// occur often, so 16-bit types are summed in f32.
static Value embeddingGrad(GraphBuilder g, EmbeddingOp op, Value dy) {
  RankedTensorType table = op.getTable().getType();
  Type wide = sumType(table.getElementType());
  Value sums =
      EmbeddingGradOp::create(g.builder, g.loc, table.clone(wide), op.getIds(),
                              g.convert(dy, wide), TypeAttr());
  return g.convert(sums, table.getElementType());
}

/// Each row of dy was added to one row of the result.
static LogicalResult rowSumsVjp(GraphBuilder g, EmbeddingGradOp op,
                                const Request &r) {
  r.set(1, [&]() -> Value {
    if (!r.resultGrads[0])
      return {};
    return EmbeddingOp::create(g.builder, g.loc, op.getDy().getType(),
                               r.resultGrads[0], op.getIds(), TypeAttr());
  });
  return success();
}

void vjp::attachMovement(MLIRContext &context) {
  attach<broadcastGrad, reshapeGrad, transposeGrad, sliceGrad, padGrad,
         concatVjp, embeddingGrad, rowSumsVjp>(context);
}
