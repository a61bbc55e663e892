//===- Indexing.h - Elements by index --------------------------*- C++ -*-===//
//
// Rows of a table go through `dpc.embedding`. Single elements are looked up
// and placed by comparing every index with every position: [.., indices,
// positions] is never stored, the sums over it are one kernel, and all
// dimensions may be split. It costs a comparison per pair, which suits rows of
// experts.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_INDEXING_H
#define DPC_FRONTENDS_EMIT_INDEXING_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Negative indices count from the end of a dimension of `size`.
Val wrapped(Emitter &e, Val indices, int64_t size);

/// Whether each position of a new last dimension of `depth` is the index.
Val oneHotMask(Emitter &e, Val indices, int64_t depth);

/// Rows [b.., k, columns] of tables [b.., rows, columns] at places [b.., k].
/// Every element is one of the table's or 0: what other rows hold (infinity)
/// has no part in it.
Val pickRows(Emitter &e, Val tables, Val places);

/// Rows [b.., k, columns] added up by places [b.., k]: [b.., rows, columns].
Val addRows(Emitter &e, Val updates, Val places, int64_t rows);

/// Dimension `axis` of `x` replaced by the dimensions of `indices`, which count
/// in it. Negative ones are not looked for where `x` is a weight.
Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis);

/// Element [.., i, ..] is data[.., indices[.., i, ..], ..] (GatherElements of
/// ONNX, gather of ATen).
Val gatherAlong(Emitter &e, Val data, Val indices, int64_t axis);

/// `data` with `updates` put where `indices`, of the same shape, say. The
/// reduction is none (indices of a row are distinct), add, mul, max or min.
Val scatterAlong(Emitter &e, Val data, Val indices, Val updates, int64_t axis,
                 llvm::StringRef reduction);

/// The position of the greatest (or least) element along `axis`, which stays
/// with size 1; the first of equals, or the `last`. NaN beats all.
Val argReduce(Emitter &e, ReduceKind kind, Val x, int64_t axis, bool last);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_INDEXING_H
