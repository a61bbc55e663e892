//===- Indexing.h - Gather and scatter by runtime indices -------*- C++ -*-===//
//
// `dpc.embedding` looks up rows of a table. Single elements are gathered and
// scattered by comparing every index with every position, which suits the short
// rows of expert routing. One kernel computes and sums all comparisons, so they
// are never stored, and all dimensions can be sharded.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Adds `size` to negative indices, which count from the end of a dimension.
Val wrapped(Emitter &e, Val indices, int64_t size);

/// Returns booleans [indices.., depth]: whether the position in the last
/// dimension equals the index.
Val oneHotMask(Emitter &e, Val indices, int64_t depth);

/// Marks the mask `hit` of `oneHotMask`: the model accepts only indices from 0
/// to depth - 1, and the label `ignored`.
Val bounded(Emitter &e, Val hit, std::optional<int64_t> ignored = {});

/// How a model reads negative indices: they count from the end of a dimension,
/// or it refuses them.
enum class Negative { wrap, refuse };

/// Picks the rows [b.., k, columns] of `tables` [b.., rows, columns] that
/// `places` [b.., k] selects; 0 for an invalid index. Unselected rows have no
/// effect, even if they hold infinities.
Val pickRows(Emitter &e, Val tables, Val places);

/// Returns a tensor [b.., rows, columns] with `updates` [b.., k, columns] added
/// to its rows `places` [b.., k], and zeros elsewhere.
Val addRows(Emitter &e, Val updates, Val places, int64_t rows);

/// Returns a tensor [rows, columns] with `updates` [k, columns] added to its
/// rows `places` [k], and zeros elsewhere, by dpc.embedding_grad.
Val rowSums(Emitter &e, Val updates, Val places, int64_t rows);

/// Adds `updates` [k, columns] to the rows `places` [k] of `table`, or replaces
/// these rows. A row that is replaced several times gets the mean of its
/// updates, because no order is defined.
Val writeRows(Emitter &e, Val table, Val updates, Val places, bool adds,
              Negative negative);

/// Replaces positions begin, begin + step, .. of dimension `dim` by `part`.
Val replaced(Emitter &e, Val base, Val part, int64_t dim, int64_t begin,
             int64_t step);

/// Looks up `indices` along dimension `axis` of `x`. The dimensions of
/// `indices` replace `axis`. If `x` is a weight and the indices are elements
/// of an input, no index may be negative.
Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis,
               Negative negative = Negative::wrap);

/// ONNX's GatherElements and ATen's gather: element [.., i, ..] of the result
/// is data[.., indices[.., i, ..], ..].
Val gatherAlong(Emitter &e, Val data, Val indices, int64_t axis,
                Negative negative = Negative::wrap);

/// How updates combine with each other and with existing elements.
struct Combination {
  ReduceKind reduce;
  BinaryKind join;
  double neutral;
};

/// Returns the combination for `reduction`: "none", "add" or "mul", or for
/// floats also "max" or "min". Notes a failure for any other text.
std::optional<Combination> combinationOf(Emitter &e, llvm::StringRef reduction,
                                         Val updates);

/// Writes `updates` to `data` at `indices` (of equal shape). `reduction` is as
/// in combinationOf; for "none", the indices of a row must be distinct.
Val scatterAlong(Emitter &e, Val data, Val indices, Val updates, int64_t axis,
                 llvm::StringRef reduction, Negative negative = Negative::wrap);

/// Returns the position of the greatest or smallest element along `axis`, which
/// gets size 1. Ties resolve to the first position, or the last if `last` is
/// set. NaN wins over every number.
Val argReduce(Emitter &e, ReduceKind kind, Val x, int64_t axis, bool last);

} // namespace dpc::frontend
