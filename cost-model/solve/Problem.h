//===- Problem.h - The strategy graph ---------------------------*- C++ -*-===//
//
// Choose one option (sharding) per node so that the program is fastest.
//
// Variables
//   x_v in {0 .. options(v)-1}          for every node v (op or tensor copy)
// Objective
//   minimize  sum_v cost_v[x_v]  +  sum_e C_e[x_producer(e), x_consumer(e)]
// Constraints
//   (C1) x_v is one of v's options.
//   (C2) cost_v[x_v] and C_e[...] are finite: infinity forbids a choice.
// The problem has no constraint on memory: an option that shards a tensor saves
// memory and also time, because it reads, writes and updates fewer bytes.
// Conditions on the input, tested by check()
//   (I1) every node has at least one option.
//   (I2) costs are not NaN and not -infinity.
//   (I3) an edge joins two different existing nodes, and its matrix has
//        options(producer) rows and options(consumer) columns.
//   (I4) every node has at least one option with a finite cost.
//
// NodeId and MatrixId are indices. Edges with equal costs share one matrix, so
// that a graph of thousands of identical layers is small. Several edges may
// join the same two nodes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dpc::cost {

using NodeId = uint32_t;
using MatrixId = uint32_t;

/// The cost of an option or pair of options that is not allowed.
inline constexpr double forbidden = std::numeric_limits<double>::infinity();

struct Node {
  std::string name;         ///< Only for messages.
  std::vector<double> cost; ///< In seconds, by option.
};

/// Dense and row-major. Rows are options of the producer, columns options of
/// the consumer.
struct CostMatrix {
  uint32_t rows = 0;
  uint32_t columns = 0;
  std::vector<double> values;

  double at(uint32_t row, uint32_t column) const {
    return values[static_cast<size_t>(row) * columns + column];
  }
};

struct Edge {
  NodeId producer = 0;
  NodeId consumer = 0;
  MatrixId matrix = 0;
};

struct Solution {
  std::vector<uint32_t> choice; ///< Option per node.
  double objective = 0;         ///< Seconds.
};

class Problem {
public:
  NodeId addNode(Node node);
  NodeId addNode(std::string name, std::vector<double> cost);
  MatrixId addMatrix(CostMatrix matrix);
  void addEdge(NodeId producer, NodeId consumer, MatrixId matrix);

  const std::vector<Node> &nodes() const { return nodeList; }
  const std::vector<Edge> &edges() const { return edgeList; }
  const std::vector<CostMatrix> &matrices() const { return matrixList; }

  /// Tests (I1) to (I4). An error names the node or edge.
  Status check() const;
  /// Recomputes the objective of `choice` from the input alone, and tests (C1)
  /// and (C2).
  Expected<Solution> verify(const std::vector<uint32_t> &choice) const;

private:
  std::vector<Node> nodeList;
  std::vector<CostMatrix> matrixList;
  std::vector<Edge> edgeList;
};

} // namespace dpc::cost
