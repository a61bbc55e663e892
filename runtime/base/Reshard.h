//===- Reshard.h - the overlap of two shards of one array -------*- C++ -*-===//
//
// A rank assembles its shard of the new layout from shards of the old layout,
// one after the other. A shard contains a list of index intervals in each
// dimension (Layout.h); the elements that are in two shards follow from the
// intersections of their intervals in each dimension.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Layout.h"

#include <functional>
#include <vector>

namespace dpc::rt {

/// The shard that `rank` has of an array with `layout` on `mesh`.
struct ShardPlace {
  const Layout &layout;
  const Mesh &mesh;
  int64_t rank = 0;
};

/// The elements that two shards of one array have in common.
class SharedElements {
public:
  /// Both layouts must have the same global shape.
  SharedElements(const ShardPlace &from, const ShardPlace &to);

  bool empty() const { return isEmpty; }
  int64_t count() const;
  /// Calls run(from, to, count) for each contiguous run of common elements. The
  /// run begins at index `from` of the first shard and at index `to` of the
  /// second shard.
  void forEachRun(const std::function<void(int64_t from, int64_t to,
                                           int64_t count)> &run) const;

private:
  /// A range of indices of one dimension that both shards have.
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
  /// Both shards have all of dimension `wholeFrom` and of later dimensions,
  /// which therefore form one run of `wholeCount` elements.
  size_t wholeFrom = 0;
  int64_t wholeCount = 1;
  bool isEmpty = false;
};

} // namespace dpc::rt
