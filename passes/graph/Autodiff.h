//===- Autodiff.h - Reverse-mode differentiation ----------------*- C++ -*-===//
//
// Differentiation walks a block of dpc ops from the last to the first. The
// gradient of a value is the sum of the gradients that its users contribute
// (VjpOpInterface). A value has a gradient if it depends on a wanted value and
// the root depends on it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/graph/GraphBuilder.h"
#include "llvm/ADT/DenseSet.h"

namespace dpc {

/// Returns `sources` and all float values of `block` that depend on them.
/// Dependences through non-float values or ops that stop the gradient do not
/// count.
llvm::DenseSet<mlir::Value> dependents(mlir::Block &block,
                                       llvm::ArrayRef<mlir::Value> sources);

/// Returns `root` and all values on which it depends. Dependences through
/// non-float values or ops for which `stops` is true do not count.
llvm::DenseSet<mlir::Value>
reachedFrom(mlir::Value root,
            llvm::function_ref<bool(mlir::Operation *)> stops);

/// Builds `seed` * d root / d wanted[i] for all i, where `seed` has the type of
/// `root`. Entry i is null if `root` does not depend on wanted[i]. The
/// insertion point of `builder` must be after all ops that `root` depends on.
/// Fails with a diagnostic at the first op that has no gradient.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildGradients(mlir::OpBuilder &builder, mlir::Value root, mlir::Value seed,
               llvm::ArrayRef<mlir::Value> wanted);

/// loss = sum * scale, where `scale` does not depend on the parameters.
///
/// With this split, micro-batches and data-parallel ranks can add gradients of
/// `sum` before `scale` is known, for example 1 / number of labels of the whole
/// batch.
struct PeeledLoss {
  /// The scalar to differentiate.
  mlir::Value sum;
  /// The initial gradient of `sum`: 1, or -1 if the loss is negated.
  double seed = 1.0;
  /// The factors of `scale`. If the flag is true, `scale` is divided by the
  /// factor.
  llvm::SmallVector<std::pair<mlir::Value, bool>> factors;
};

/// Splits `loss` at multiplications, divisions and negations. `active` contains
/// the values that depend on parameters.
PeeledLoss peelLoss(mlir::Value loss,
                    const llvm::DenseSet<mlir::Value> &active);

/// Builds the scale as a scalar of `elementType`, or returns null if the scale
/// is 1.
mlir::Value buildScale(GraphBuilder g, const PeeledLoss &peeled,
                       mlir::Type elementType);

} // namespace dpc
