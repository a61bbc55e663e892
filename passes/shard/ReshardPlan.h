//===- ReshardPlan.h - Cheapest steps between shardings -------*- C++ -*-===//
//
// A reshard is a path through shardings of one tensor. The edges are
//
//   accumulate      drop the partial sum over `mb`                  no bytes
//   rank_slice      append a free axis to a factor                  no bytes
//   all_gather      remove the innermost axes of a factor     (k-1)/k * out
//   reduce_scatter  turn partial axes into a split factor     (k-1)/k * in
//   all_reduce      drop partial axes                       2 (k-1)/k * in
//   all_to_all      move the innermost axes of a factor to another
//                                                             (k-1)/k * in
//
// (bytes that one rank sends; k ranks along the axes; sizes include padding).
// The planner runs Dijkstra's algorithm with the bytes as lengths. It adds a
// small cost per step for latency and copies, so that one collective over two
// axes is cheaper than two collectives. On ties, it prefers sends over inner
// axes. A path moves only axes whose place differs between source and target.
//
// Example, tp = 4, sequence-parallel to head-parallel:
//   [{}, {tp}, {4, 16}] -> [{}, {}, {4:tp, 16}]     one all_to_all over tp
//
// Uneven factors: if a factor of local size c0 is split further over k ranks,
// each shard has c = ceil(c0 / k) elements. A split pads the factor to k * c,
// and a join trims it to c0. Since splits are nested (ir/Sharding.h), valid
// data keeps its place.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_RESHARDPLAN_H
#define DPC_PASSES_SHARD_RESHARDPLAN_H

#include "ir/Sharding.h"

#include <vector>

namespace dpc {

/// The kind of a step; see the file comment.
enum class ReshardStepKind {
  accumulate,
  rankSlice,
  allReduce,
  reduceScatter,
  allGather,
  allToAll
};

/// One step. `before` and `after` have the same factors and differ only in
/// axes. Every factor that the step changes is a separate factor in both.
struct ReshardStep {
  ReshardStepKind kind;
  /// Mesh axes of the step, in the order in which they split the factor. The
  /// parts of a collective are numbered row-major over these axes.
  llvm::SmallVector<int64_t, 2> axes;
  ReduceKind reduction = ReduceKind::sum;
  /// The factor that loses axes (all_gather, all_to_all) and the factor that
  /// gains them (rank_slice, reduce_scatter, all_to_all), counted over all
  /// dimensions; -1 if there is none.
  int64_t source = -1;
  int64_t target = -1;
  ShardingSpec before = {};
  ShardingSpec after = {};
  /// Bytes that one rank sends.
  double sentBytes = 0;
};

/// The cheapest steps between two shardings of one tensor over one mesh; empty
/// if the shardings place the tensor equally. If there is no path, returns
/// nullopt and sets `why`: the target is partial where the source is not, or
/// the steps would have to undo a split over `mb`. Plans are cached per
/// process, by value. Thread-safe.
std::optional<std::vector<ReshardStep>> planReshard(const ShardingSpec &from,
                                                    const ShardingSpec &to,
                                                    int64_t elementBytes,
                                                    std::string &why);

/// The bytes that one rank sends in the steps of planReshard; nullopt if there
/// is no path.
std::optional<double> reshardBytes(const ShardingSpec &from,
                                   const ShardingSpec &to,
                                   int64_t elementBytes);

/// planReshard without its cache.
std::optional<std::vector<ReshardStep>> searchReshard(const ShardingSpec &from,
                                                      const ShardingSpec &to,
                                                      int64_t elementBytes,
                                                      std::string &why);

} // namespace dpc

#endif // DPC_PASSES_SHARD_RESHARDPLAN_H
