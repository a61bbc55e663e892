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

  /// Moves the sinks of `attention` into elementwise ops after it, with
  ///   lse' = log(exp(lse) + exp(sink))    out' = exp(lse - lse') * out
  /// Returns the attention without sinks.
  AttentionOp splitSinks(AttentionOp attention);

  /// Replaces the window of the op by a mask.
  void maskWindow();

  /// With `isStep`, all users convert the results to `wide`, and get them
  /// without rounding.
  void expand(AttentionOp attention, bool isStep);
  void expand(AttentionGradOp grad, bool isStep);

protected:
  /// Reshapes [B, H, T, x] to [B, G, R * T, x], for any number T of queries.
  mlir::Value fold(mlir::Value value);
  mlir::Value unfold(mlir::Value value);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta, bool tb,
                     mlir::Type result);
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
};

mlir::Value maskOf(mlir::Operation *op);

/// Whether `op`, an attention or its gradient, sends keys around ranks.
bool isRing(mlir::Operation *op);

/// How the steps of a causal ring divide its products (ExpandRing.cpp).
enum class RingForm {
  stripes, ///< As plans execute it.
  balanced ///< As other software executes it; only for estimates.
};

/// Expands `op`, for which isRing() is true, into steps. Returns the attentions
/// of the steps, or their gradients. Fails with a diagnostic.
llvm::FailureOr<llvm::SmallVector<mlir::Operation *>>
expandRing(mlir::Operation *op, MeshAttr mesh, RingForm form);

} // namespace dpc
