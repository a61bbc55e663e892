//===- ExpertTiles.h - Rows and buffers of dpc.expert_tiles -----*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

namespace dpc {

/// Returns how many of `rows` rows belong to the experts of an average rank,
/// rounded up. `global` is the sharded type of their stacked matrices.
int64_t expectedRows(int64_t rows, mlir::RankedTensorType global);
int64_t expectedRows(ExpertTilesOp op);

/// Returns whether the body computes the result `number` in the buffer of the
/// result: a gradient of matrices, which adds to it.
bool addsInPlace(ExpertTilesOp op, unsigned number);

/// Returns the values of the body that have buffers: the ids and rows of a
/// tile, and results of ops, except views, constants and results in place.
llvm::SmallVector<mlir::Value> tileBuffers(ExpertTilesOp op);

} // namespace dpc
