#include "runtime/base/Reshard.h"

#include <algorithm>

namespace dpc::rt {

namespace {

/// A range of `count` indices, which begins at `global` in the array and at
/// `local` in the shard.
struct Piece {
  int64_t global, local, count;
};

/// Returns the ranges of dimension `dim` in ascending order.
std::vector<Piece> piecesOf(const ShardPlace &place, size_t dim) {
  std::vector<Piece> pieces;
  Layout alone{{place.layout.dims[dim]}};
  forEachRun(alone, place.mesh, place.rank, 0,
             [&](int64_t global, int64_t local, int64_t count) {
               if (!pieces.empty() &&
                   pieces.back().global + pieces.back().count == global &&
                   pieces.back().local + pieces.back().count == local)
                 pieces.back().count += count;
               else
                 pieces.push_back({global, local, count});
             });
  return pieces;
}

} // namespace

SharedElements::SharedElements(const ShardPlace &from, const ShardPlace &to) {
  size_t rank = from.layout.dims.size();
  std::vector<int64_t> fromShape = localShape(from.layout, from.mesh);
  std::vector<int64_t> toShape = localShape(to.layout, to.mesh);
  dims.resize(rank);
  for (size_t d = 0; d < rank && !isEmpty; ++d) {
    std::vector<Piece> a = piecesOf(from, d), b = piecesOf(to, d);
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      int64_t begin = std::max(a[i].global, b[j].global);
      int64_t endA = a[i].global + a[i].count, endB = b[j].global + b[j].count;
      if (int64_t end = std::min(endA, endB); begin < end)
        dims[d].intervals.push_back({a[i].local + begin - a[i].global,
                                     b[j].local + begin - b[j].global,
                                     end - begin});
      ++(endA < endB ? i : j);
    }
    dims[d].fromExtent = fromShape[d];
    dims[d].toExtent = toShape[d];
    isEmpty = dims[d].intervals.empty();
  }
  wholeFrom = rank;
  int64_t fromStride = 1, toStride = 1;
  for (size_t d = rank; d-- > 0 && !isEmpty;) {
    Dimension &dim = dims[d];
    dim.fromStride = fromStride;
    dim.toStride = toStride;
    fromStride *= dim.fromExtent;
    toStride *= dim.toExtent;
    if (wholeFrom == d + 1 && dim.intervals.size() == 1 &&
        dim.intervals[0].count == dim.fromExtent &&
        dim.fromExtent == dim.toExtent) {
      wholeFrom = d;
      wholeCount *= dim.fromExtent;
    }
  }
}

int64_t SharedElements::count() const {
  if (isEmpty)
    return 0;
  int64_t product = 1;
  for (const Dimension &dim : dims) {
    int64_t sum = 0;
    for (const Interval &interval : dim.intervals)
      sum += interval.count;
    product *= sum;
  }
  return product;
}

void SharedElements::walk(
    size_t dim, int64_t from, int64_t to,
    const std::function<void(int64_t, int64_t, int64_t)> &run) const {
  if (dim == wholeFrom)
    return run(from, to, wholeCount);
  const Dimension &d = dims[dim];
  for (const Interval &interval : d.intervals) {
    if (dim + 1 == wholeFrom) {
      run(from + interval.from * d.fromStride, to + interval.to * d.toStride,
          interval.count * wholeCount);
      continue;
    }
    for (int64_t i = 0; i < interval.count; ++i)
      walk(dim + 1, from + (interval.from + i) * d.fromStride,
           to + (interval.to + i) * d.toStride, run);
  }
}

void SharedElements::forEachRun(
    const std::function<void(int64_t, int64_t, int64_t)> &run) const {
  if (!isEmpty)
    walk(0, 0, 0, run);
}

} // namespace dpc::rt
