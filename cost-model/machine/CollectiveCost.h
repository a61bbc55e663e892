//===- CollectiveCost.h - Time of collectives on the levels -----*- C++ -*-===//
//
// The time of each algorithm is latency + bytes / bandwidth. In the formulas, n
// ranks have buffers of B bytes, a device's link has b bytes per second, and a
// message has a latency of a seconds.
//
// B counts the whole buffer: the buffer of a rank for all_reduce, the input of
// a rank for reduce_scatter and all_to_all, the output of a rank for
// all_gather, and the message for broadcast and send_recv. So an all_reduce of
// B bytes equals a reduce_scatter and an all_gather of B bytes.
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
//   In-switch reduction. The switch adds: a rank sends its buffer and receives
//   the sum at the same time (full duplex), so each direction carries B once:
//     all_reduce                   2 * a + B/b
//     reduce_scatter, all_gather   a + (n-1)/n * B/b (no gain in bytes)
//   Hierarchical. The group has n_i ranks at level i of levels 0..L-1.
//     reduce_scatter(B) runs inside level 0, then on B/n_0 bytes at level 1,
//     and so on; the all_gathers run in reverse order. Only B / (n_0...n_{i-1})
//     bytes enter level i.
//     all_to_all: level i carries the messages between ranks whose outermost
//     different level is i: B * (p_i - p_{i-1}) / n with p_i = n_0*...*n_i
//     and p_{-1} = 1. The latencies of the levels add up. The levels have
//     different links, so transfers overlap and the slowest level counts.
//     broadcast: along the outermost level first, then inwards; the times of
//     the levels add up.
//
// The bandwidth b is the bandwidth of the level, times the fraction that
// collectives achieve, divided by the oversubscription of the level. Each
// device has this bandwidth: disjoint groups of ranks use different links
// (cluster.json divides adapters that the devices of a node share), and the
// collectives of a rank run one after another. On a ring-shaped level, the
// bytes of an all_to_all count n/4 times (at least once), because a message
// crosses n/4 links on average. On a full mesh, send_recv gets b / (span - 1),
// because a device has span - 1 links and a pair of devices uses one of them.
//
// A flat algorithm over several levels has the bandwidth of the slowest level
// and the largest latency. reduce_scatter and all_gather have no tree.
//
//===----------------------------------------------------------------------===//
#pragma once

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

struct GroupPlacement {
  /// For each level, how many units of the next inner level have ranks of the
  /// group. The product is the group's size: [8, 4] = 4 nodes of 8 ranks.
  std::vector<int64_t> ranksPerLevel;

  int64_t size() const;
};

/// A predicted collective.
struct CollectiveEstimate {
  double seconds = 0;
  Algorithm algorithm = Algorithm::None;
  /// The bytes that one rank sends over each level.
  std::vector<double> bytesPerLevel;
};

/// Returns the estimate of the fastest algorithm (on ties, the first in
/// `Algorithm`). If `only` is set, returns the estimate of that algorithm, with
/// infinite seconds if it does not apply. A group of one rank costs 0.
CollectiveEstimate estimateCollective(const Cluster &cluster, Collective kind,
                                      double bytes, const GroupPlacement &group,
                                      std::optional<Algorithm> only = {});

/// Places an axis of `size` ranks that are `stride` devices apart; the
/// innermost axis has stride 1. If the ranks do not fill units evenly (3 ranks
/// with stride 2 on nodes of 4), the traffic counts on the outer level.
GroupPlacement placeAxis(const Cluster &cluster, int64_t stride, int64_t size);

/// Places the devices numbered `first` and `second` at the innermost level that
/// joins them. If the numbers are equal, the group has one rank.
GroupPlacement placePair(const Cluster &cluster, int64_t first, int64_t second);

} // namespace dpc::cost
