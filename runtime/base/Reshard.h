//===- Reshard.h - the overlap of two shards of one array -------*- C++ -*-===//
//
// A shard is a product of index sets, one for each dimension, and each set is a
// list of intervals (Layout.h). Two shards of different layouts therefore share
// the product of the intersections of their intervals. Nothing as large as the
// array, or as the number of its runs, is stored: a rank that assembles its
// shard from the shards of other ranks asks each of them in turn.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_RESHARD_H
#define DPC_RUNTIME_BASE_RESHARD_H

#include "runtime/base/Layout.h"

#include <functional>
#include <vector>

namespace dpc::rt {

/// A holder of a shard of an array: `rank` of `mesh`, with the array laid out
/// by `layout`.
struct ShardPlace {
  const Layout &layout;
  const Mesh &mesh;
  int64_t rank = 0;
};

/// The elements that two shards of one array have in common.
class SharedElements {
public:
  /// Both layouts must be of the same shape.
  SharedElements(const ShardPlace &from, const ShardPlace &to);

  bool empty() const { return isEmpty; }
  int64_t count() const;
  /// Calls run(from, to, count) for every run of consecutive elements: the
  /// `count` elements that start at index `from` of the first shard are those
  /// that start at index `to` of the second.
  void forEachRun(const std::function<void(int64_t from, int64_t to,
                                           int64_t count)> &run) const;

private:
  /// Consecutive elements of one dimension that both shards have.
  struct Interval {
    int64_t from, to, count;
  };
  struct Dimension {
    std::vector<Interval> intervals;
    int64_t fromStride = 1, toStride = 1; ///< in elements of the shards
    int64_t fromExtent = 1, toExtent = 1;
  };
  void walk(size_t dim, int64_t from, int64_t to,
            const std::function<void(int64_t, int64_t, int64_t)> &run) const;

  std::vector<Dimension> dims;
  /// Dimensions from this one on are whole in both shards and form one run.
  size_t wholeFrom = 0;
  int64_t wholeCount = 1; ///< elements of these dimensions
  bool isEmpty = false;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_RESHARD_H
