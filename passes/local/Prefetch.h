//===- Prefetch.h - Gathers of parameters ahead of their use ----*- C++ -*-===//
//
// With ZeRO-3, each phase of the loop gathers the parameters that it reads and
// drops them after use. A gather of values that exist when the phase begins
// (arguments, results of setup) may be issued any time before its first reader.
// An early gather is hidden by the computation before the reader, but a gather
// that is too early takes memory:
//
//   buckets  b1, b2, .. of gathers in the order of their first readers. Each
//            has at most `limit` bytes, or one larger member and others that
//            together have at most an eighth of its bytes
//   bi       is issued before the first reader of bj, for the smallest j < i
//            with at most twice the limit in b(j+1) .. bi, or for j = i - 1
//
// So the memory for gathered values, except for the buckets in use, is at most
// twice the limit, or one bucket. The limit is that of all buckets, but at most
// 1/16 of the bytes that the phase gathers. Otherwise all gathers of a small
// model would be in memory at the same time.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_PREFETCH_H
#define DPC_PASSES_LOCAL_PREFETCH_H

#include "passes/local/Partition.h"

namespace dpc {

/// Maps an op to the op of the same phase directly before which it is placed.
using Anchors = llvm::DenseMap<mlir::Operation *, mlir::Operation *>;

/// True for a gather in the loop whose operands exist before its phase begins.
bool isGatheredAhead(mlir::Operation *op);

/// Merges the gathers that satisfy isGatheredAhead into buckets. Returns the
/// anchors of the buckets and of the ops that compute their operands.
Anchors gatherAhead(mlir::Block &block, int64_t bucketBytes, double depth = 1);

/// Replaces collectives that have the same kind, axes and phase by one op at
/// the place of the last of them, and returns this op. Readers of the other
/// collectives stay where they are, before this op.
mlir::Operation *mergeCollectives(llvm::ArrayRef<mlir::Operation *> members);

/// The bytes of the unsharded buffers of a collective: the results of a gather,
/// or the operands of another collective.
int64_t bucketedBytes(mlir::Operation *op);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PREFETCH_H
