//===- MinCut.h - The cheapest separation of a flow network -----*- C++ -*-===//
//
// Dinic's algorithm: phases of shortest augmenting paths. The networks of
// training programs are long and narrow and need a few phases.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SOLVE_MINCUT_H
#define DPC_COST_MODEL_SOLVE_MINCUT_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpc::cost {

/// A directed network with capacities; nodes are numbered in order of creation.
class FlowNetwork {
public:
  /// An upper bound of every sum of finite capacities.
  static constexpr int64_t kUnlimited = INT64_MAX / 4;

  /// Adds a node and returns its number.
  int32_t addNode();
  /// Adds an edge; capacity >= 0, at most kUnlimited.
  void addEdge(int32_t from, int32_t to, int64_t capacity);

  /// Finds the cheapest set of edges whose removal leaves no path from `source`
  /// to `sink`. Returns true for the nodes on the source's side; on ties, this
  /// side is the smallest one possible. Call once. At least one cut must be
  /// below kUnlimited.
  std::vector<bool> sourceSide(int32_t source, int32_t sink);

  /// The value of the cut that sourceSide returned.
  int64_t cutValue() const { return value; }

private:
  struct Edge {
    int32_t to;
    int64_t left; ///< Capacity that is not used yet.
  };
  bool findLevels(int32_t source, int32_t sink);
  int64_t augment(int32_t source, int32_t sink);

  std::vector<Edge> edges; ///< Edge i's reverse is i ^ 1.
  std::vector<std::vector<int32_t>> outgoing;
  std::vector<int32_t> level;
  std::vector<size_t>
      next; ///< By node, the first edge that may still carry flow.
  int64_t value = 0;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SOLVE_MINCUT_H
