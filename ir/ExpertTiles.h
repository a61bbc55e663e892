//===- ExpertTiles.h - Rows and buffers of dpc.expert_tiles -----*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

namespace dpc {

/// Returns the names of the axes that split the experts, in the order of the
/// mesh. `global` is the sharded type of their stacked matrices.
mlir::ArrayAttr expertAxes(mlir::RankedTensorType global);

/// Returns how many ranks exchange rows with this one, itself included; 1 if
/// the op does not exchange rows.
int64_t exchangedRanks(ExpertTilesOp op);

/// Returns the axes along which `op`, a collective or an op that exchanges
/// rows, communicates; null if it does not.
mlir::ArrayAttr communicationAxes(mlir::Operation *op);

/// Returns whether the communication queue runs `op`.
bool communicates(mlir::Operation *op);

/// Returns the values of the body whose rows travel between ranks if they are
/// exchanged: the ids, and the operands and results with rows, in this order.
llvm::SmallVector<mlir::Value> travelingTiles(ExpertTilesOp op);

/// Returns the bytes of the rows that a rank sends in a round (or gets back)
/// before they are in a tile: those of the widest operand or result.
int64_t stagedBytes(ExpertTilesOp op);

/// Returns how many of `rows` rows belong to the experts of an average rank,
/// rounded up. `global` is the sharded type of their stacked matrices.
int64_t expectedRows(int64_t rows, mlir::RankedTensorType global);
/// Those of the op, from all ranks that exchange rows.
int64_t expectedRows(ExpertTilesOp op);

/// Returns about how many rounds exchange `rows` rows of the fullest of `ranks`
/// ranks. In several rounds, each rank leaves about half a row of a tile empty.
int64_t exchangeRounds(double rows, int64_t tileRows, int64_t ranks);

/// Returns how many tiles a rank runs with `load` times as many rows as the
/// average rank: its rounds, if rows are exchanged.
int64_t expectedTiles(ExpertTilesOp op, double load);

/// Returns whether the body computes the result `number` in the buffer of the
/// result: a gradient of matrices, which adds to it.
bool addsInPlace(ExpertTilesOp op, unsigned number);

/// Returns the values of the body that have buffers: the ids and rows of a
/// tile, and results of ops, except views, constants and results in place.
llvm::SmallVector<mlir::Value> tileBuffers(ExpertTilesOp op);

} // namespace dpc
