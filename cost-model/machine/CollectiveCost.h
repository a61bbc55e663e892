//===- CollectiveCost.h - Time of collectives on the levels -----*- C++ -*-===//
//
// Each algorithm takes latency + bytes / bandwidth, for n ranks, a buffer of B
// bytes, a link with b bytes per second for each device, and a latency of a
// seconds per message.
//
//   B is the *full* buffer. all_reduce: the buffer of a rank; reduce_scatter:
//   the input of a rank; all_gather: the output of a rank; all_to_all: the
//   input of a rank (= its output); broadcast, send_recv: the message. So
//   all_reduce(B) can be reduce_scatter(B) and all_gather(B).
//
//   Ring. In each of n-1 steps every rank sends one of n equal chunks:
//     reduce_scatter, all_gather   (n-1) * (a + B/n/b)
//     all_reduce = both            2 * (n-1) * (a + B/n/b)
//     broadcast (pipelined chain)  (n-1) * a + B/b
//   Tree. A binary tree reduces, then broadcasts in chunks. Every byte crosses
//   a device's link once up and once down; the latency grows with the depth:
//     all_reduce                   2 * (ceil(log2 n) * a + B/b)
//     broadcast                    ceil(log2 n) * a + B/b
//   Direct. Every rank sends a part to every other rank. The messages are
//   pipelined on one link and pay the latency of a switch once:
//     all_to_all                   a + (n-1)/n * B/b
//     send_recv                    a + B/b
//   In-switch reduction. The switch adds: a rank sends its buffer up and
//   receives the sum at the same time (full duplex), so each direction carries
//   B once:
//     all_reduce                   2 * a + B/b
//     reduce_scatter, all_gather   a + (n-1)/n * B/b (no gain in bytes)
//   Hierarchical. The group has n_i ranks at level i of levels 0..L-1.
//     reduce_scatter(B) runs inside level 0, then on B/n_0 bytes at level 1,
//     and so on; the all_gathers run in reverse order. Only B / (n_0...n_{i-1})
//     bytes enter level i.
//     all_to_all: level i carries the messages between ranks whose outermost
//     different level is i: B * (p_i - p_{i-1}) / n with p_i = n_0*...*n_i. The
//     latencies of the levels add up. The levels have different links, so
//     transfers overlap and the slowest level counts.
//     broadcast: along the outermost level first, then inwards; the times of
//     the levels add up.
//
//   b is the bandwidth of the level times the fraction that collectives
//   achieve, divided by its oversubscription. Each device has this bandwidth:
//   disjoint groups of ranks use different links (cluster.json divides adapters
//   that the devices of a node share), and the collectives of a rank run one
//   after another. On a ring-shaped level an all_to_all message crosses n/4
//   links on average, so its bytes count n/4 times (at least once). On a full
//   mesh, a pair of devices uses one of the (span - 1) links of a device, so
//   send_recv gets b / (span - 1).
//
// A flat algorithm over several levels has the bandwidth of the slowest level
// and the largest latency. Trees do not scatter: reduce_scatter and all_gather
// use a ring, the switch or the hierarchical algorithm.
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

enum class Algorithm { None, Direct, Ring, Tree, InSwitch, Hierarchical };

/// The placement of a group of ranks on the levels of a cluster.
struct GroupPlacement {
  /// For each level, the number of units of the level below that have ranks of
  /// the group. The product is the size of the group: [8, 4] = 4 nodes of 8
  /// ranks each.
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

/// Returns the estimate of the fastest algorithm (on ties, the first in
/// `Algorithm`). If `only` is set, returns the estimate of that algorithm, with
/// infinite seconds if it does not apply. A group of one rank costs 0.
CollectiveEstimate estimateCollective(const Cluster &cluster, Collective kind,
                                      double bytes, const GroupPlacement &group,
                                      std::optional<Algorithm> only = {});

/// Places an axis of `size` ranks that are `stride` devices apart; the axis
/// with stride 1 is innermost. If ranks do not fill units evenly (3 ranks with
/// stride 2 on nodes of 4), the outer level has more traffic.
GroupPlacement placeAxis(const Cluster &cluster, int64_t stride, int64_t size);

/// Places two devices, given by number, at the innermost level that joins them.
/// If `first` equals `second`, the group has one rank.
GroupPlacement placePair(const Cluster &cluster, int64_t first, int64_t second);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_COLLECTIVECOST_H
