//===- Reshard.h - what two shards of one array share -----------*- C++ -*-===//
//
// A shard is a product of index sets, one for each dimension, and each of them
// a list of intervals (Layout.h). So two shards of unlike layouts share the
// product of the intersections, and nothing as large as the array, or as the
// number of its runs, is ever kept: a rank that takes its shard of an array
// out of those that others hold asks each of them in turn.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_RESHARD_H
#define DPC_RUNTIME_BASE_RESHARD_H

#include "runtime/base/Layout.h"

#include <functional>
#include <vector>

namespace dpc::rt {

/// One holder of a shard of an array: `rank` of `mesh`, where the array lies as
/// `layout` says.
struct ShardPlace {
  const Layout &layout;
  const Mesh &mesh;
  int64_t rank = 0;
};

/// What two shards of one array have in common.
class SharedElements {
public:
  /// Layouts of the same shape.
  SharedElements(const ShardPlace &from, const ShardPlace &to);

  bool empty() const { return isEmpty; }
  int64_t count() const;
  /// Calls run(from, to, count) for every run of consecutive elements: `count`
  /// elements from index `from` of the one shard are those from index `to` of
  /// the other one on.
  void forEachRun(const std::function<void(int64_t from, int64_t to,
                                           int64_t count)> &run) const;

private:
  /// Elements of one dimension that both have.
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
  /// Dimensions from this one on are whole in both shards, and so one run.
  size_t wholeFrom = 0;
  int64_t wholeCount = 1; ///< elements of these
  bool isEmpty = false;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_RESHARD_H
