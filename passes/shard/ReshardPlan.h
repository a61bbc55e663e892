//===- ReshardPlan.h - Cheapest way between two shardings -------*- C++ -*-===//
//
// A reshard is a path through shardings of one tensor. The edges are
//
//   accumulate      drop the partial state of `mb`                    no bytes
//   rank_slice      append a free axis to a factor                    no bytes
//   all_gather      remove the innermost axes of a factor       (k-1)/k * out
//   reduce_scatter  turn partial axes into a split factor       (k-1)/k * in
//   all_reduce      drop partial axes                         2 (k-1)/k * in
//   all_to_all      move the innermost axes of one factor to another
//                                                               (k-1)/k * in
//
// (bytes one rank sends; k = ranks of the axes, sizes include padding). The
// planner runs Dijkstra over these with the bytes as lengths, plus a small
// price per step that stands for its latency and its copies, so that one
// collective over two axes beats two, and a tensor is never gathered whole when
// a cheaper chain exists; of equals, the one that sends over inner axes. States
// differ only in axes whose place changes; the other axes never move.
//
// Example, tp = 4, sequence-parallel to head-parallel:
//   [{}, {tp}, {4, 16}] -> [{}, {}, {4:tp, 16}]     one all_to_all over tp
//
// Uneven factors: a factor of local size c0 before it is split by k more ranks
// has shards of c = ceil(c0 / k). Splitting pads to k * c, joining trims k * c
// to c0. As splitting is nested (ir/Sharding.h) valid data stays in its place.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_RESHARDPLAN_H
#define DPC_PASSES_SHARD_RESHARDPLAN_H

#include "ir/Sharding.h"

#include <map>
#include <vector>

namespace dpc {

/// What a step of a plan does; see the file comment.
enum class ReshardStepKind {
  accumulate,
  rankSlice,
  allReduce,
  reduceScatter,
  allGather,
  allToAll
};
llvm::StringRef stringifyReshardStepKind(ReshardStepKind kind);

/// One step. `before` and `after` have the same factors, cut so that every
/// factor the step touches stands alone; only axes differ.
struct ReshardStep {
  ReshardStepKind kind;
  /// Mesh axes of the step in the order in which they split the factor:
  /// pieces of a collective are numbered row-major over them.
  llvm::SmallVector<int64_t, 2> axes;
  ReduceKind reduction = ReduceKind::sum;
  /// Position, among all factors of all dimensions in order, of the factor
  /// that loses axes (all_gather, all_to_all) and gains them (rank_slice,
  /// reduce_scatter, all_to_all); -1 where there is none.
  int64_t source = -1;
  int64_t target = -1;
  ShardingSpec before = {};
  ShardingSpec after = {};
  /// Bytes of the full buffer as cost-model/machine/CollectiveCost.h counts it:
  /// all_reduce one rank's buffer, all_gather the output, reduce_scatter and
  /// all_to_all the input. 0 for steps without communication.
  double fullBytes = 0;
  /// Bytes that one rank sends.
  double sentBytes = 0;
};

/// Ranks over which `axes` of `mesh` extend.
int64_t numPieces(MeshAttr mesh, llvm::ArrayRef<int64_t> axes);

/// The cheapest steps from `from` to `to`, both of one tensor over one mesh;
/// empty when they place equally. Nullopt with `why` filled when there is no
/// way: the target is partial where the source is not, or a split over `mb`
/// would have to be undone.
std::optional<std::vector<ReshardStep>> planReshard(const ShardingSpec &from,
                                                    const ShardingSpec &to,
                                                    int64_t elementBytes,
                                                    std::string &why);

/// One collective of a reshard.
struct ReshardTraffic {
  ReshardStepKind kind;
  llvm::SmallVector<int64_t, 2> axes; ///< Indices of mesh axes.
  double fullBytes;                   ///< See ReshardStep.
  double sentBytes;                   ///< See ReshardStep.
};

/// What a reshard sends.
struct ReshardCost {
  /// False when there is no way; then `traffic` is empty.
  bool feasible = true;
  llvm::SmallVector<ReshardTraffic, 2> traffic;
  /// Sum over `traffic` of what one rank sends.
  double sentBytes() const;
};

/// Plans by what they are for, of one mesh: layers ask for the same ones.
class ReshardPlans {
public:
  /// As planReshard, which is asked once; null for a failure, whose reason is
  /// said the first time. Valid as long as this is.
  const std::vector<ReshardStep> *find(const ShardingSpec &from,
                                       const ShardingSpec &to,
                                       int64_t elementBytes, std::string &why);

private:
  std::map<std::vector<int64_t>, std::optional<std::vector<ReshardStep>>> plans;
};

/// The traffic of planReshard's answer. Cached per process by value (not by
/// context) and safe to call from several threads.
ReshardCost reshardTraffic(const ShardingSpec &from, const ShardingSpec &to,
                           int64_t elementBytes);
/// The same for encodings of a tensor of `shape`.
ReshardCost reshardTraffic(ShardingAttr from, ShardingAttr to,
                           llvm::ArrayRef<int64_t> shape, int64_t elementBytes);

} // namespace dpc

#endif // DPC_PASSES_SHARD_RESHARDPLAN_H
