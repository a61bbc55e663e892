//===- Prefetch.h - Gathers of parameters ahead of their use ----*- C++ -*-===//
//
// With ZeRO-3, each phase of the loop gathers the parameters it reads and drops
// them. A gather of values that exist when the phase begins (arguments, results
// of setup) may be issued any time before its first reader. If it is early
// enough, the computation before the reader hides it; if it is too early, it
// takes memory:
//
//   buckets  b1, b2, .. of gathers in the order of their first readers, each of
//            at most `limit` bytes, or one member and others that together have
//            an eighth of its bytes
//   bi       is issued before the first reader of bj, for the smallest j < i
//   such
//            that b(j+1) .. bi have at most twice the limit, or j = i - 1
//
// So besides the buckets in use, there are at most two limits of gathered
// bytes, or one bucket. The limit is that of all buckets, but at most 1/16 of
// the bytes that the phase gathers: otherwise the gathers of a small model
// would all be in memory.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_PREFETCH_H
#define DPC_PASSES_LOCAL_PREFETCH_H

#include "passes/local/Partition.h"

namespace dpc {

/// Ops that go directly before other ops of the same phase.
using Anchors = llvm::DenseMap<mlir::Operation *, mlir::Operation *>;

/// True for a gather in the loop of values that exist before its phase begins.
bool isGatheredAhead(mlir::Operation *op);

/// Merges such gathers into buckets. Returns the places of the buckets and of
/// the ops that compute their operands.
Anchors gatherAhead(mlir::Block &block, int64_t bucketBytes, double depth = 1);

/// Replaces collectives of one kind, axes and phase by one op at the place of
/// the last, and returns it. Readers of the others stay before it.
mlir::Operation *mergeCollectives(llvm::ArrayRef<mlir::Operation *> members);

/// Bytes of the whole buffers of a collective: its operands, or the results of
/// a gather.
int64_t bucketedBytes(mlir::Operation *op);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PREFETCH_H
