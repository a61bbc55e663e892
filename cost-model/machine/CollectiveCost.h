//===- CollectiveCost.h - Time of collectives on the levels -----*- C++ -*-===//
//
// Latency + bandwidth per algorithm. n ranks, buffer of B bytes, a link of
// b bytes per second and device, a seconds per message.
//
//   What `bytes` means: the *full* buffer. all_reduce: each rank's buffer;
//   reduce_scatter: each rank's input; all_gather: each rank's output;
//   all_to_all: each rank's input (= its output); broadcast, send_recv: the
//   message. So all_reduce(B) can be reduce_scatter(B) then all_gather(B).
//
//   Ring. n-1 steps, in each every rank sends one of n equal chunks:
//     reduce_scatter, all_gather   (n-1) * (a + B/n/b)
//     all_reduce = both            2 * (n-1) * (a + B/n/b)
//     broadcast (pipelined chain)  (n-1) * a + B/b
//   Tree. A binary tree reduces then broadcasts in chunks: every byte crosses
//   a device's link once up and once down, the depth pays latency:
//     all_reduce                   2 * (ceil(log2 n) * a + B/b)
//     broadcast                    ceil(log2 n) * a + B/b
//   Direct. Every rank sends its part to every other, messages pipelined on one
//   link, latency paid once on a switch:
//     all_to_all                   a + (n-1)/n * B/b
//     send_recv                    a + B/b
//   In-switch reduction. The switch adds: a rank sends its buffer up and gets
//   the sum down at once (full duplex), so each direction carries B once:
//     all_reduce                   2 * a + B/b
//     reduce_scatter, all_gather   a + (n-1)/n * B/b (no gain in bytes)
//   Hierarchical. Levels 0..L-1, the group holds n_i ranks at level i.
//     reduce_scatter(B) inside level 0, then on B/n_0 at level 1, ..., then
//     all_gather back: only B / (n_0...n_{i-1}) bytes enter level i.
//     all_to_all: level i carries the part whose peer differs first (from the
//     outside) at level i: B * (p_i - p_{i-1}) / n with p_i = n_0*...*n_i.
//     Levels' latencies add; the links are different, so that transfers overlap
//     and the slowest level's transfer counts.
//     broadcast: along the outermost level first, then inwards; levels add.
//
//   b is the level's bandwidth times the share of it that collectives achieve,
//   by its oversubscription. It is a device's own: groups of other ranks use
//   other links (adapters that a node's devices share are counted by share in
//   cluster.json), and a rank's collectives follow each other in one queue.
//   Ring-shaped levels: an all_to_all message crosses n/4 links on average, so
//   its bytes count n/4 times (at least once). Full meshes: one pair uses one
//   of the (span - 1) links of a device, so send_recv gets that share of b.
//
// A flat algorithm over several levels runs at the slowest level's rate and
// pays the largest latency. Tree reductions do not scatter: reduce_scatter and
// all_gather are ring, in-switch or hierarchical.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_COLLECTIVECOST_H
#define DPC_COST_MODEL_MACHINE_COLLECTIVECOST_H

#include "cost-model/machine/Cluster.h"

namespace dpc::cost {

enum class Collective {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  SendRecv
};
std::string_view stringifyCollective(Collective kind);

enum class Algorithm { None, Direct, Ring, Tree, InSwitch, Hierarchical };
std::string_view stringifyAlgorithm(Algorithm algorithm);

/// How a group of ranks lies on the cluster's levels.
struct GroupPlacement {
  /// Ranks the group has within one unit of each level, per unit of the level
  /// below: the product is the group's size. [8, 4] = 4 nodes of 8 ranks each.
  std::vector<int64_t> ranksPerLevel;

  int64_t size() const;
};

/// A predicted collective.
struct CollectiveEstimate {
  double seconds = 0;
  Algorithm algorithm = Algorithm::None;
  /// Bytes that one rank sends over each level.
  std::vector<double> bytesPerLevel;
};

/// The cheapest algorithm's estimate; ties go to the first in the order of
/// `Algorithm`. A group of one rank costs 0.
CollectiveEstimate estimateCollective(const Cluster &cluster, Collective kind,
                                      double bytes,
                                      const GroupPlacement &group);

/// The estimate of one algorithm; nothing where it does not apply.
std::optional<CollectiveEstimate> estimateWith(const Cluster &cluster,
                                               Algorithm algorithm,
                                               Collective kind, double bytes,
                                               const GroupPlacement &group);

/// Places an axis of `size` ranks that are `stride` devices apart on the
/// levels: the axis with stride 1 is innermost. Uneven fits (3 ranks on nodes
/// of 4 with stride 2) are rounded towards more traffic on the outer level.
GroupPlacement placeAxis(const Cluster &cluster, int64_t stride, int64_t size);

/// Places the pair of two devices, by number: at the innermost level that joins
/// them. Equal devices make a group of one.
GroupPlacement placePair(const Cluster &cluster, int64_t first, int64_t second);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_COLLECTIVECOST_H
