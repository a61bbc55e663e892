//===- Reshard.h - the overlap of two shards of one array -------*- C++ -*-===//
//
// A shard holds a list of index intervals in each dimension (Layout.h). The
// elements that two shards share follow from the intersections of these
// intervals, dimension by dimension. The intervals need little memory compared
// with the array. A rank assembles its shard from the other shards, one after
// the other.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_RESHARD_H
#define DPC_RUNTIME_BASE_RESHARD_H

#include "runtime/base/Layout.h"

#include <functional>
#include <vector>

namespace dpc::rt {

/// A shard: the part of an array with `layout` on `mesh` that `rank` holds.
struct ShardPlace {
  const Layout &layout;
  const Mesh &mesh;
  int64_t rank = 0;
};

/// The elements that two shards of one array share.
class SharedElements {
public:
  /// Both layouts must have the same global shape.
  SharedElements(const ShardPlace &from, const ShardPlace &to);

  bool empty() const { return isEmpty; }
  int64_t count() const;
  /// Calls run(from, to, count) for each run of consecutive elements. The run
  /// starts at index `from` of the first shard and at index `to` of the second.
  void forEachRun(const std::function<void(int64_t from, int64_t to,
                                           int64_t count)> &run) const;

private:
  /// Consecutive indices of one dimension that both shards hold.
  struct Interval {
    int64_t from, to, count;
  };
  struct Dimension {
    std::vector<Interval> intervals;
    int64_t fromStride = 1, toStride = 1; ///< in elements
    int64_t fromExtent = 1, toExtent = 1;
  };
  void walk(size_t dim, int64_t from, int64_t to,
            const std::function<void(int64_t, int64_t, int64_t)> &run) const;

  std::vector<Dimension> dims;
  /// Both shards hold all of dimension `wholeFrom` and of the dimensions after
  /// it, so these dimensions form one run.
  size_t wholeFrom = 0;
  int64_t wholeCount = 1; ///< elements in this run
  bool isEmpty = false;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_RESHARD_H
