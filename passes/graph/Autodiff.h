//===- Autodiff.h - Reverse-mode differentiation ----------------*- C++ -*-===//
//
// Walks a block of dpc ops from the last to the first. Every value that
// depends on a wanted value and that the root depends on gets one gradient:
// the sum of what its users send back (VjpOpInterface).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_AUTODIFF_H
#define DPC_PASSES_GRAPH_AUTODIFF_H

#include "passes/graph/GraphBuilder.h"
#include "llvm/ADT/DenseSet.h"

namespace dpc {

/// The float values of `block` that depend on one of `sources` (which are
/// included) through float values, where no op stops the gradient.
llvm::DenseSet<mlir::Value> dependents(mlir::Block &block,
                                       llvm::ArrayRef<mlir::Value> sources);

/// Builds d root / d wanted[i], times `seed` (a value of root's type), at the
/// builder's insertion point, which must come after all ops that root depends
/// on. An entry is null where root does not depend on it. Fails with a
/// diagnostic at the op that has no gradient.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildGradients(mlir::OpBuilder &builder, mlir::Value root, mlir::Value seed,
               llvm::ArrayRef<mlir::Value> wanted);

/// loss = sum * scale, where `scale` does not depend on the parameters.
///
/// Micro-batches and data-parallel shards can then add up gradients of `sum`
/// without knowing `scale` (1 / number of labels, say), which is known only
/// when all of them are done.
struct PeeledLoss {
  /// The value to differentiate, a scalar.
  mlir::Value sum;
  /// The gradient of `sum` to start from: 1, or -1 when the loss is negated.
  double seed = 1.0;
  /// Factors of `scale`: (value, whether it divides).
  llvm::SmallVector<std::pair<mlir::Value, bool>> factors;
};

/// Walks back from `loss` through multiplications, divisions and negations;
/// `active` are the values that depend on parameters.
PeeledLoss peelLoss(mlir::Value loss,
                    const llvm::DenseSet<mlir::Value> &active);

/// Builds `scale` of `peeled` as a scalar of `elementType`; null when it is 1.
mlir::Value buildScale(GraphBuilder g, const PeeledLoss &peeled,
                       mlir::Type elementType);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_AUTODIFF_H
