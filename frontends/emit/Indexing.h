//===- Indexing.h - Gather and scatter by runtime indices -------*- C++ -*-===//
//
// Rows of a table are looked up with `dpc.embedding`. Single elements are
// gathered and scattered by comparing every index with every position. The
// array [.., indices, positions] is never stored: its sums are one kernel, and
// all dimensions may be sharded. The cost is one comparison per pair, which
// suits the short rows that expert routing produces.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_INDEXING_H
#define DPC_FRONTENDS_EMIT_INDEXING_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Adds `size` to negative indices, which count from the end of a dimension.
Val wrapped(Emitter &e, Val indices, int64_t size);

/// Whether each position of a new last dimension of size `depth` equals the
/// index.
Val oneHotMask(Emitter &e, Val indices, int64_t depth);

/// Rows [b.., k, columns] of tables [b.., rows, columns] at indices [b.., k].
/// Every element of the result is an element of the table or 0: an infinity in
/// another row has no effect.
Val pickRows(Emitter &e, Val tables, Val places);

/// Adds rows [b.., k, columns] to the rows at indices [b.., k] of a zero tensor
/// [b.., rows, columns].
Val addRows(Emitter &e, Val updates, Val places, int64_t rows);

/// Replaces dimension `axis` of `x` by the dimensions of `indices`, which index
/// that dimension. Negative indices are not supported when `x` is a weight.
Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis);

/// Element [.., i, ..] is data[.., indices[.., i, ..], ..] (GatherElements in
/// ONNX, gather in ATen).
Val gatherAlong(Emitter &e, Val data, Val indices, int64_t axis);

/// How updates combine with existing elements.
struct Combination {
  ReduceKind reduce;
  BinaryKind join;
  double neutral;
};

/// The combination for a reduction: "none", "add" and "mul", and for floats
/// also "max" and "min". Notes a failure for other reductions.
std::optional<Combination> combinationOf(Emitter &e, llvm::StringRef reduction,
                                         Val updates);

/// `data` with `updates` written at `indices`, which have the same shape. The
/// reduction is none (the indices of a row are distinct), add, mul, max or min.
Val scatterAlong(Emitter &e, Val data, Val indices, Val updates, int64_t axis,
                 llvm::StringRef reduction);

/// The position of the greatest or least element along `axis`, which is kept
/// with size 1. Ties resolve to the first position, or to the last if `last`.
/// NaN wins over every number.
Val argReduce(Emitter &e, ReduceKind kind, Val x, int64_t axis, bool last);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_INDEXING_H
