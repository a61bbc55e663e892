//===- Prefetch.h - Parameters gathered ahead of their use ------*- C++ -*-===//
//
// Private to passes/local; a part of dpc-bucket-collectives.
//
// With ZeRO-3 each phase of the loop gathers the parameters it reads and drops
// them. A gather of what is there when the phase begins (an argument, or what
// setup made) can be issued at any time before its first reader. Early enough,
// it runs beside the computation before; too early, it takes memory:
//
//   buckets  b1, b2, .. of gathers in the order of their first readers, each of
//            at most `limit` bytes, or one member and others that are together
//            an eighth of it
//   bi       is issued before the first reader of bj, for the least j < i such
//            that b(j+1) .. bi have no more than twice the limit, or j = i - 1
//
// So beside the buckets that are in use there are never more than two limits of
// gathered bytes, or one bucket. The limit is that of all buckets, but at most
// 1/16 of what the phase gathers: else small models would hold all of it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_PREFETCH_H
#define DPC_PASSES_LOCAL_PREFETCH_H

#include "passes/local/Partition.h"

namespace dpc {

/// Ops that go directly before others of the same phase.
using Anchors = llvm::DenseMap<mlir::Operation *, mlir::Operation *>;

/// True for a gather, in the loop, of what is there before its phase begins.
bool isGatheredAhead(mlir::Operation *op);

/// Merges such gathers into buckets; returns where these, and what makes their
/// operands, are to go.
Anchors gatherAhead(mlir::Block &block, int64_t bucketBytes, double depth = 1);

/// Replaces collectives of one kind, axes and phase by one op at the place of
/// the last, which it returns. Readers of the others are left before it.
mlir::Operation *mergeCollectives(llvm::ArrayRef<mlir::Operation *> members);

/// Bytes of a collective's whole buffers: of the operands, for a gather of the
/// results.
int64_t bucketedBytes(mlir::Operation *op);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PREFETCH_H
