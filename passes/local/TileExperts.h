//===- TileExperts.h - The parts of dpc-tile-experts ------------*- C++ -*-===//
//
// A *row value* has a row for each id of a mixture. In the body of a tile, its
// first dimensions, which count the rows, are one dimension. Consecutive rows
// may share a row of another value, such as the choices of a token.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

#include "llvm/ADT/SetVector.h"

namespace dpc {

/// The products of experts of one phase with the same ids, and the ops on rows
/// around them.
struct TileSet {
  mlir::Value ids;
  int64_t rows = 0;
  /// The ops of the set: the products and what is computed from their rows.
  llvm::SmallSetVector<mlir::Operation *, 16> own;
  /// Ops that the body repeats, although others may need them too: those that
  /// compute rows of the forward phase, and those that move rows to `own`.
  llvm::SmallSetVector<mlir::Operation *, 16> repeated;

  mlir::Operation *first() const { return own.front(); }
  bool contains(mlir::Operation *op) const {
    return own.contains(op) || repeated.contains(op);
  }
};

/// Returns whether `op` is a product of experts, or its gradient, and a rank
/// has only a part of the experts.
bool splitsExperts(mlir::Operation *op);

/// Returns whether the result of `op` is a gradient of matrices or biases of
/// experts, a sum over rows.
bool isWholeSum(mlir::Operation *op);

/// Returns whether `op` converts between floats of at least 16 bits, so that it
/// changes no more than the rounding.
bool convertsFloats(mlir::Operation *op);

/// How a broadcast repeats rows: how many first dimensions of the operand and
/// of the result count rows, and how many consecutive rows share a row of the
/// operand (0: all rows are equal).
struct RowBroadcast {
  int64_t operandRank = 0, resultRank = 0, share = 0;
};
/// Returns nullopt if consecutive rows do not share a row of the operand.
std::optional<RowBroadcast> rowBroadcast(BroadcastOp op, int64_t rows);

/// Returns the operands of `op`, an op of a set, that have rows. Consecutive
/// rows may share a row of them.
llvm::SmallVector<mlir::Value> rowOperands(mlir::Operation *op);

/// Returns s > 1 if `op` sums over s consecutive rows, else 0.
int64_t summedRows(mlir::Operation *op, int64_t rows);

/// Computes the gradients of gates without the rows that they multiply
/// (TileGates.cpp).
void avoidGatedRows(mlir::Block &block);

/// Replaces the ops of `set` by a dpc.expert_tiles with tiles of `tileRows`
/// rows. Returns false if an operand of the op would be computed from one of
/// its results.
bool buildTiles(const TileSet &set, int64_t tileRows);

} // namespace dpc
