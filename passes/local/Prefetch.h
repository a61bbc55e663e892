//===- Prefetch.h - Gathers of parameters ahead of their use ----*- C++ -*-===//
//
// With ZeRO-3, each phase of the micro-batch loop gathers the parameters that
// it reads and drops them after use. If the operands of a gather exist when the
// phase begins, the gather may be issued at any time before its first reader.
// Computation hides an early gather, but its result occupies memory for longer.
// So gathers are merged and issued as follows:
//
//   buckets  b1, b2, .. contain the gathers in the order of their first
//            readers. A bucket has at most `limit` bytes, or it has one larger
//            gather and others with at most 1/8 of its bytes in total.
//   bi       is issued before the first reader of bj for the smallest j < i for
//            which b(j+1) .. bi have at most 2 * `limit` bytes, or j = i - 1 if
//            there is none.
//
// Gathered values that are not yet in use take at most 2 * `limit` bytes, or
// one bucket. `limit` is the smaller of bucket-bytes and 1/16 of the bytes that
// the phase gathers. Otherwise, a small model would gather everything at once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/local/Partition.h"

namespace dpc {

/// Maps an op to its anchor: the op of the same phase before which it moves.
using Anchors = llvm::DenseMap<mlir::Operation *, mlir::Operation *>;

/// True for an all_gather in the micro-batch loop whose operands exist when its
/// phase begins, perhaps after data movement.
bool isGatheredAhead(mlir::Operation *op);

/// Merges the gathers that satisfy isGatheredAhead into buckets. Returns the
/// anchors of the buckets and of the ops that compute their operands.
Anchors gatherAhead(mlir::Block &block, int64_t bucketBytes, double depth = 1);

/// Replaces collectives with the same kind, axes and phase by one op, which
/// takes the place of the last, and returns it. Does not move readers, so
/// readers of the other collectives may be before the new op.
mlir::Operation *mergeCollectives(llvm::ArrayRef<mlir::Operation *> members);

/// Returns the bytes of the unsharded buffers of a collective: the results of
/// an all_gather, or the operands of other collectives.
int64_t bucketedBytes(mlir::Operation *op);

} // namespace dpc
