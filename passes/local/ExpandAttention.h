//===- ExpandAttention.h - Parts of local attention -------------*- C++ -*-===//
#pragma once

#include "ir/Sharding.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"

namespace dpc {

/// Expands an attention op into ops of the same phase. H = G * R query heads
/// share G key heads.
class AttentionExpander {
public:
  explicit AttentionExpander(mlir::Operation *op);

  /// Fails with a diagnostic if the number of query heads is not a multiple of
  /// the number of key heads.
  llvm::LogicalResult check();

  void expand(AttentionOp attention);
  void expand(AttentionGradOp grad);

protected:
  /// Reshapes [B, H, T, x] to [B, G, R * T, x], for any number T of queries.
  mlir::Value fold(mlir::Value value);
  mlir::Value unfold(mlir::Value value);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb) {
    return matmul(a, b, ta, tb, element);
  }
  /// Returns a matmul whose result has type `wide`, for scores and sums.
  mlir::Value wideMatmul(mlir::Value a, mlir::Value b, bool ta, bool tb) {
    return matmul(a, b, ta, tb, wide);
  }
  /// Returns the sum of a * b along the last dimension, converted to `type`.
  mlir::Value rowDot(mlir::Value a, mlir::Value b, mlir::RankedTensorType type);

  mlir::Operation *op;
  AttributeListener listener;
  mlir::OpBuilder builder;
  mlir::Location loc;
  GraphBuilder g;
  mlir::Type element;
  mlir::Type wide; ///< The type of sums, sumType(element).
  int64_t batch, heads, queries, groups, keys;

private:
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb,
                     mlir::Type result);
};

mlir::Value maskOf(mlir::Operation *op);

/// Expands `op`, an attention or its gradient with the attributes `dpc.ring`
/// and `dpc.global`. Fails with a diagnostic.
llvm::LogicalResult expandRing(mlir::Operation *op, MeshAttr mesh);

} // namespace dpc
