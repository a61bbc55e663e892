//===- ExpandAttention.h - Parts of local attention -------------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_EXPANDATTENTION_H
#define DPC_PASSES_LOCAL_EXPANDATTENTION_H

#include "ir/Sharding.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"

namespace dpc {

/// Builds ops before one attention op, in the phase of this op. H = G * R query
/// heads share G key heads.
class AttentionExpander {
public:
  /// `op` is an attention or its gradient.
  explicit AttentionExpander(mlir::Operation *op);

  /// Fails with a diagnostic if the number of query heads is not a multiple of
  /// the number of key heads.
  llvm::LogicalResult check();

  void expand(AttentionOp attention);
  void expand(AttentionGradOp grad);

protected:
  /// [B, H, T, x] -> [B, G, R * T, x], for any number T of queries.
  mlir::Value fold(mlir::Value value);
  /// The inverse of `fold`.
  mlir::Value unfold(mlir::Value value);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb) {
    return matmul(a, b, ta, tb, element);
  }
  /// A matmul with results of type `wide`, for scores and for terms of sums.
  mlir::Value wideMatmul(mlir::Value a, mlir::Value b, bool ta, bool tb) {
    return matmul(a, b, ta, tb, wide);
  }
  /// The sum of a * b along the last dimension, converted to `type`.
  mlir::Value rowDot(mlir::Value a, mlir::Value b, mlir::RankedTensorType type);

  mlir::Operation *op;
  AttributeListener listener;
  mlir::OpBuilder builder;
  mlir::Location loc;
  GraphBuilder g;
  mlir::Type element;
  mlir::Type wide; ///< The type in which `element` is summed, see sumType.
  int64_t batch, heads, queries, groups, keys;

private:
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb,
                     mlir::Type result);
};

/// The additive mask of an attention or its gradient, or null.
mlir::Value maskOf(mlir::Operation *op);

/// Expands `op`, an attention that is marked `dpc.ring` and has split positions
/// (`dpc.global` is present). Fails with a diagnostic.
llvm::LogicalResult expandRing(mlir::Operation *op, MeshAttr mesh);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_EXPANDATTENTION_H
