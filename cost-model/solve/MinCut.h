//===- MinCut.h - The cheapest separation of a flow network -----*- C++ -*-===//
//
// Dinic's algorithm, which augments along shortest paths in phases. The
// networks of training programs are long and narrow and need only a few phases.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpc::cost {

/// A directed network with capacities. Nodes are numbered as they are added.
class FlowNetwork {
public:
  /// At least as large as any sum of finite capacities.
  static constexpr int64_t kUnlimited = INT64_MAX / 4;

  int32_t addNode();
  /// Adds an edge with a capacity from 0 to kUnlimited.
  void addEdge(int32_t from, int32_t to, int64_t capacity);

  /// Finds the cheapest set of edges whose removal leaves no path from `source`
  /// to `sink`. Returns true for each node on the source's side, which is as
  /// small as possible on ties. At least one cut must be below kUnlimited. Must
  /// not be called twice.
  std::vector<bool> sourceSide(int32_t source, int32_t sink);

  int64_t cutValue() const { return value; }

private:
  struct Edge {
    int32_t to;
    int64_t left; ///< Free capacity.
  };
  bool findLevels(int32_t source, int32_t sink);
  int64_t augment(int32_t source, int32_t sink);

  std::vector<Edge> edges; ///< Edge `i ^ 1` is the reverse of edge `i`.
  std::vector<std::vector<int32_t>> outgoing;
  std::vector<int32_t> level;
  /// By node, the first edge that may still carry flow.
  std::vector<size_t> next;
  int64_t value = 0;
};

} // namespace dpc::cost
