//===- Comparisons.h - What a loss compares with the inputs ----*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace dpc {

/// Values that depend on weights, and what the loss compares them with.
struct Comparison {
  /// Rows of classes [N, C] with labels [N], or numbers of the shape of their
  /// targets.
  mlir::Value scores;
  /// The labels or targets. If ops only rescale the elements of an input, it is
  /// the input.
  mlir::Value labels;
  /// The loss of each row of a cross entropy; null for other comparisons.
  mlir::Value losses = nullptr;
  /// The numbers between which the scores of an error are, because of the op
  /// that gives them.
  std::optional<double> lowest = std::nullopt, highest = std::nullopt;
  /// The op that compares them.
  mlir::Operation *op = nullptr;
};

/// Returns the cross entropies of `forward`, and then each place where its loss
/// compares numbers with targets, as a squared error does. Targets depend on no
/// weight, and no op before the comparison reads their inputs, so that those of
/// an autoencoder are none.
llvm::SmallVector<Comparison> comparisonsOf(mlir::func::FuncOp forward);

/// Whether `op` computes each result from elements of its operands, as ops
/// after the layers of a model do.
bool worksOnElements(mlir::Operation *op);

/// Returns the op that looks up the factor of each label of `input` in the
/// loss, from a table of one column, or null.
EmbeddingOp classWeightsOf(mlir::func::FuncOp forward, mlir::Value input);

/// Returns the trained output of `forward`, or null.
mlir::Value lossOf(mlir::func::FuncOp forward);

} // namespace dpc
