//===- ReshardPlan.h - Cheapest steps between shardings -------*- C++ -*-===//
//
// A reshard is a path through shardings of one tensor. In this table of edges,
// there are k ranks along the changed axes. The bytes are those that one rank
// sends, including padding.
//
//   accumulate      drop the partial sum over `mb`                  no bytes
//   rank_slice      append a free axis to a factor                  no bytes
//   all_gather      remove the innermost axes of a factor     (k-1)/k * out
//   reduce_scatter  turn partial axes into a split factor     (k-1)/k * in
//   all_reduce      drop partial axes                       2 (k-1)/k * in
//   all_to_all      move the innermost axes of a factor to another
//                                                             (k-1)/k * in
//
// The planner runs Dijkstra's algorithm with the bytes as lengths. Each step
// has an additional small cost for latency and copies, so that one collective
// over two axes is cheaper than two collectives. On ties, paths that send over
// inner axes are preferred. A path moves only axes whose positions differ
// between source and target.
//
// Example with tp = 4, from sequence-parallel to head-parallel:
//   [{}, {tp}, {4, 16}] -> [{}, {}, {4:tp, 16}]     one all_to_all over tp
//
// Uneven factors: if a factor of local size c0 is split further over k ranks,
// each shard has c = ceil(c0 / k) elements. A split pads the factor to k * c,
// and a join trims the padding. Splits are nested (ir/Sharding.h), so valid
// data is not moved.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Sharding.h"

#include <vector>

namespace dpc {

/// See the file comment.
enum class ReshardStepKind {
  accumulate,
  rankSlice,
  allReduce,
  reduceScatter,
  allGather,
  allToAll
};

/// `before` and `after` have the same factors and differ only in axes. A factor
/// that the step changes is a separate factor in both.
struct ReshardStep {
  ReshardStepKind kind;
  /// Mesh axes, in the order in which they split the factor. The parts of a
  /// collective are numbered row-major over these axes.
  llvm::SmallVector<int64_t, 2> axes;
  ReduceKind reduction = ReduceKind::sum;
  /// The factor that loses axes (all_gather, all_to_all) and the factor that
  /// gains them (rank_slice, reduce_scatter, all_to_all), counted over all
  /// dimensions; -1 if there is none.
  int64_t source = -1;
  int64_t target = -1;
  ShardingSpec before = {};
  ShardingSpec after = {};
  double sentBytes = 0;
};

/// Returns the cheapest steps between two shardings of one tensor over one
/// mesh. There are no steps if both place the tensor equally. If there is no
/// path, returns nullopt and sets `why`: the target is partial over an axis
/// over which the source is not partial, or a split over `mb` would have to be
/// undone. Plans are cached by value for the whole process. Thread-safe.
std::optional<std::vector<ReshardStep>> planReshard(const ShardingSpec &from,
                                                    const ShardingSpec &to,
                                                    int64_t elementBytes,
                                                    std::string &why);

/// Returns the bytes that one rank sends in the steps of planReshard, or
/// nullopt without a path.
std::optional<double> reshardBytes(const ShardingSpec &from,
                                   const ShardingSpec &to,
                                   int64_t elementBytes);

std::optional<std::vector<ReshardStep>> searchReshard(const ShardingSpec &from,
                                                      const ShardingSpec &to,
                                                      int64_t elementBytes,
                                                      std::string &why);

} // namespace dpc
