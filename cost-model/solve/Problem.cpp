//===- Problem.cpp - The strategy graph -----------------------------------===//

#include "cost-model/solve/Problem.h"

#include <algorithm>
#include <cmath>

namespace dpc::cost {

NodeId Problem::addNode(Node node) {
  nodeList.push_back(std::move(node));
  return static_cast<NodeId>(nodeList.size() - 1);
}

NodeId Problem::addNode(std::string name, std::vector<double> cost) {
  return addNode(Node{std::move(name), std::move(cost)});
}

MatrixId Problem::addMatrix(CostMatrix matrix) {
  matrixList.push_back(std::move(matrix));
  return static_cast<MatrixId>(matrixList.size() - 1);
}

void Problem::addEdge(NodeId producer, NodeId consumer, MatrixId matrix) {
  edgeList.push_back(Edge{producer, consumer, matrix});
}

/// Returns whether (I2) allows `value`.
static bool isCost(double value) {
  return !std::isnan(value) && value != -forbidden;
}

static std::string describe(const std::vector<Node> &nodes, size_t id) {
  return "node " + std::to_string(id) + " '" + nodes[id].name + "'";
}

static Status checkNode(const std::vector<Node> &nodes, size_t id) {
  const Node &node = nodes[id];
  if (node.cost.empty())
    return Error{describe(nodes, id) + ": no options; expected at least one"};
  if (!std::all_of(node.cost.begin(), node.cost.end(), isCost))
    return Error{describe(nodes, id) +
                 ": a cost is NaN or -infinity; expected a number or infinity"};
  if (std::count(node.cost.begin(), node.cost.end(), forbidden) ==
      static_cast<std::ptrdiff_t>(node.cost.size()))
    return Error{describe(nodes, id) +
                 ": every option is forbidden; expected one of finite cost"};
  return Status();
}

static Status checkEdge(const Problem &problem, size_t id) {
  const Edge &edge = problem.edges()[id];
  const std::vector<Node> &nodes = problem.nodes();
  std::string where = "edge " + std::to_string(id);
  if (edge.producer >= nodes.size() || edge.consumer >= nodes.size() ||
      edge.producer == edge.consumer)
    return Error{where + ": joins nodes " + std::to_string(edge.producer) +
                 " and " + std::to_string(edge.consumer) +
                 "; expected two different ids below " +
                 std::to_string(nodes.size())};
  if (edge.matrix >= problem.matrices().size())
    return Error{where + ": matrix " + std::to_string(edge.matrix) +
                 "; expected an id below " +
                 std::to_string(problem.matrices().size())};
  const CostMatrix &matrix = problem.matrices()[edge.matrix];
  size_t rows = nodes[edge.producer].cost.size();
  size_t columns = nodes[edge.consumer].cost.size();
  if (matrix.rows != rows || matrix.columns != columns ||
      matrix.values.size() != rows * columns)
    return Error{where + ": a matrix of " + std::to_string(matrix.rows) +
                 " x " + std::to_string(matrix.columns) + "; expected " +
                 std::to_string(rows) + " x " + std::to_string(columns) +
                 " (options of " + describe(nodes, edge.producer) + " and " +
                 describe(nodes, edge.consumer) + ")"};
  return Status();
}

Status Problem::check() const {
  for (size_t id = 0; id < nodeList.size(); ++id)
    DPC_TRY(checkNode(nodeList, id));
  for (size_t id = 0; id < matrixList.size(); ++id)
    if (!std::all_of(matrixList[id].values.begin(), matrixList[id].values.end(),
                     isCost))
      return Error{"matrix " + std::to_string(id) +
                   ": a cost is NaN or -infinity; expected a number or "
                   "infinity"};
  for (size_t id = 0; id < edgeList.size(); ++id)
    DPC_TRY(checkEdge(*this, id));
  return Status();
}

Expected<Solution> Problem::verify(const std::vector<uint32_t> &choice) const {
  if (choice.size() != nodeList.size())
    return Error{"a choice of " + std::to_string(choice.size()) +
                 " entries; expected one per node, " +
                 std::to_string(nodeList.size())};
  Solution solution;
  for (size_t id = 0; id < choice.size(); ++id) {
    const Node &node = nodeList[id];
    if (choice[id] >= node.cost.size())
      return Error{"(C1) " + describe(nodeList, id) + ": option " +
                   std::to_string(choice[id]) + "; expected below " +
                   std::to_string(node.cost.size())};
    if (node.cost[choice[id]] == forbidden)
      return Error{"(C2) " + describe(nodeList, id) + ": option " +
                   std::to_string(choice[id]) + " is forbidden"};
    solution.objective += node.cost[choice[id]];
  }
  for (size_t id = 0; id < edgeList.size(); ++id) {
    const Edge &edge = edgeList[id];
    double cost = matrixList[edge.matrix].at(choice[edge.producer],
                                             choice[edge.consumer]);
    if (cost == forbidden)
      return Error{"(C2) edge " + std::to_string(id) +
                   ": the pair of options " +
                   std::to_string(choice[edge.producer]) + ", " +
                   std::to_string(choice[edge.consumer]) + " is forbidden"};
    solution.objective += cost;
  }
  solution.choice = choice;
  return solution;
}

} // namespace dpc::cost
