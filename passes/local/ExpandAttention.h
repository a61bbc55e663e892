//===- ExpandAttention.h - Pieces of local attention ------------*- C++ -*-===//
//
// Private to dpc-expand-attention: ExpandAttention.cpp (all keys at hand) and
// ExpandRing.cpp (keys and values travel).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_EXPANDATTENTION_H
#define DPC_PASSES_LOCAL_EXPANDATTENTION_H

#include "ir/Sharding.h"

#include "mlir/IR/Builders.h"

namespace dpc {

/// Builds the pieces of one attention op, in front of it and in its phase. H =
/// G * R query heads share G key heads.
class AttentionExpander {
public:
  /// `op` is an attention or its gradient.
  explicit AttentionExpander(mlir::Operation *op);

  /// Refuses shards of heads that do not fit together.
  llvm::LogicalResult check();

  void expand(AttentionOp attention);
  void expand(AttentionGradOp grad);

protected:
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// [B, H, T, x] -> [B, G, R * T, x], for any number T of queries.
  mlir::Value fold(mlir::Value value);
  mlir::Value unfold(mlir::Value value);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb) {
    return matmul(a, b, ta, tb, element);
  }
  /// As `wide`: for scores, and for terms of sums.
  mlir::Value wideMatmul(mlir::Value a, mlir::Value b, bool ta, bool tb) {
    return matmul(a, b, ta, tb, wide);
  }
  mlir::Value convert(mlir::Value value, mlir::Type elementType);
  mlir::Value unary(UnaryKind kind, mlir::Value x);
  mlir::Value binary(BinaryKind kind, mlir::Value a, mlir::Value b);
  /// The sum of a * b along the last dimension, as `type`.
  mlir::Value rowDot(mlir::Value a, mlir::Value b, mlir::RankedTensorType type);
  template <typename OpTy> OpTy tagged(OpTy made) {
    copyAttributes(op, made, {attr::kPhase, attr::kChunk});
    return made;
  }

  mlir::Operation *op;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Type element;
  /// f32 where `element` is bf16 or f16, else `element`.
  mlir::Type wide;
  int64_t batch, heads, queries, groups, keys;

private:
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb,
                     mlir::Type result);
};

/// Expands `op`, an attention marked `dpc.ring` whose positions are split (it
/// has `dpc.global`). Fails with a diagnostic.
llvm::LogicalResult expandRing(mlir::Operation *op, MeshAttr mesh);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_EXPANDATTENTION_H
