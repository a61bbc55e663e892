//===- Lagrangian.cpp - Elimination under a memory limit ------------------===//
//
// For a price p >= 0 per byte, elimination solves exactly
//   L(p) = min_x objective(x) + p * (bytes(x) - limit)
// and L(p) is a lower bound of the constrained optimum: feasible x have
// bytes(x) <= limit. A larger p never needs more bytes. Bisection finds the
// smallest p whose x fits; what a price cannot reach (all layers switch at the
// same p) is done by moving single nodes.
//
//===----------------------------------------------------------------------===//

#include "cost-model/search/Solvers.h"

#include <algorithm>
#include <cmath>

namespace dpc::cost {

namespace {

class LagrangianSolver {
public:
  LagrangianSolver(const Problem &problem, const LagrangianOptions &options)
      : problem(problem), options(options), priced(problem) {
    priced.memoryLimit = forbidden;
    edgesOf.resize(problem.nodes().size());
    for (uint32_t id = 0; id < problem.edges().size(); ++id) {
      edgesOf[problem.edges()[id].producer].push_back(id);
      edgesOf[problem.edges()[id].consumer].push_back(id);
    }
  }

  Result<Solution> run();

private:
  using Choice = std::vector<uint32_t>;

  double bytesOf(NodeId node, uint32_t option) const {
    const Node &entry = problem.nodes()[node];
    return entry.bytes.empty() ? 0 : entry.bytes[option];
  }
  /// Solves at a price and updates bound, incumbent and `cheapestTooLarge`.
  Status trySolve(double price, bool &fits);
  Result<Solution> leastBytes();
  void offer(const Choice &choice);
  double costAround(const Choice &choice, NodeId node, uint32_t option) const;
  bool repair(Choice &choice) const;
  void improve(Choice &choice) const;
  bool isClosed() const {
    return incumbent &&
           incumbent->objective - bound <=
               options.relativeGap * std::abs(incumbent->objective);
  }

  const Problem &problem;
  const LagrangianOptions &options;
  Problem priced; ///< Reused: only node costs change.
  std::vector<std::vector<uint32_t>> edgesOf;
  std::optional<Solution> incumbent;
  std::optional<Solution> tooLarge; ///< Of the highest price that failed.
  double bound = -forbidden;
};

} // namespace

/// The problem with node costs replaced.
static Problem withCosts(const Problem &problem, bool onlyBytes, double price) {
  Problem result;
  for (const Node &node : problem.nodes()) {
    std::vector<double> cost = node.cost;
    for (size_t x = 0; x < cost.size(); ++x) {
      double bytes = node.bytes.empty() ? 0 : node.bytes[x];
      if (cost[x] != forbidden)
        cost[x] = onlyBytes ? bytes : cost[x] + price * bytes;
    }
    result.addNode(node.name, std::move(cost));
  }
  for (const CostMatrix &matrix : problem.matrices()) {
    CostMatrix copy = matrix;
    if (onlyBytes)
      for (double &value : copy.values)
        value = value == forbidden ? forbidden : 0;
    result.addMatrix(std::move(copy));
  }
  for (const Edge &edge : problem.edges())
    result.addEdge(edge.producer, edge.consumer, edge.matrix);
  return result;
}

Result<Solution> LagrangianSolver::leastBytes() {
  return solveByElimination(withCosts(problem, /*onlyBytes=*/true, 0),
                            options.elimination);
}

/// Keeps a feasible choice when it is better than the incumbent.
void LagrangianSolver::offer(const Choice &choice) {
  Result<Solution> solution = problem.verify(choice);
  if (solution && (!incumbent || solution->objective < incumbent->objective))
    incumbent = *solution;
}

Status LagrangianSolver::trySolve(double price, bool &fits) {
  Problem atPrice = withCosts(problem, /*onlyBytes=*/false, price);
  Result<Solution> solved = solveByElimination(atPrice, options.elimination);
  if (!solved)
    return Error{solved.error()};
  // A guess of elimination bounds nothing: its lower bound is -inf then.
  bound = std::max(bound, solved->lowerBound - price * problem.memoryLimit);
  Result<Solution> real = priced.verify(solved->choice);
  assert(real && "a priced solution satisfies (C1) and (C2)");
  fits = real->bytes <= problem.memoryLimit;
  if (fits)
    offer(real->choice);
  else
    tooLarge = *real;
  return Status();
}

/// Cost of a node's option and of its edges, the others as in `choice`.
double LagrangianSolver::costAround(const Choice &choice, NodeId node,
                                    uint32_t option) const {
  double cost = problem.nodes()[node].cost[option];
  for (uint32_t id : edgesOf[node]) {
    const Edge &edge = problem.edges()[id];
    const CostMatrix &matrix = problem.matrices()[edge.matrix];
    cost += edge.producer == node ? matrix.at(option, choice[edge.consumer])
                                  : matrix.at(choice[edge.producer], option);
  }
  return cost;
}

/// Moves nodes, cheapest per byte first in each pass, until the limit holds.
bool LagrangianSolver::repair(Choice &choice) const {
  Result<Solution> start = priced.verify(choice);
  assert(start && "repair starts from a solution of (C1) and (C2)");
  double excess = start->bytes - problem.memoryLimit;
  for (int pass = 0; pass < 8 && excess > 0; ++pass) {
    struct Move {
      double rate;
      NodeId node;
      uint32_t option;
    };
    std::vector<Move> moves;
    for (NodeId node = 0; node < choice.size(); ++node)
      for (uint32_t x = 0; x < problem.nodes()[node].cost.size(); ++x) {
        double saved = bytesOf(node, choice[node]) - bytesOf(node, x);
        double cost = costAround(choice, node, x);
        if (saved > 0 && cost != forbidden)
          moves.push_back({(cost - costAround(choice, node, choice[node])) /
                               std::min(saved, excess),
                           node, x});
      }
    std::stable_sort(
        moves.begin(), moves.end(),
        [](const Move &a, const Move &b) { return a.rate < b.rate; });
    for (const Move &move : moves) {
      double saved = bytesOf(move.node, choice[move.node]) -
                     bytesOf(move.node, move.option);
      // An earlier move may have forbidden this one.
      if (excess <= 0 || saved <= 0 ||
          costAround(choice, move.node, move.option) == forbidden)
        continue;
      choice[move.node] = move.option;
      excess -= saved;
    }
  }
  return excess <= 0;
}

/// Takes single moves that lower the objective within the limit.
void LagrangianSolver::improve(Choice &choice) const {
  Result<Solution> start = problem.verify(choice);
  if (!start)
    return;
  double slack = problem.memoryLimit - start->bytes;
  bool changed = true;
  for (int pass = 0; pass < 16 && changed; ++pass) {
    changed = false;
    for (NodeId node = 0; node < choice.size(); ++node) {
      double current = costAround(choice, node, choice[node]);
      for (uint32_t x = 0; x < problem.nodes()[node].cost.size(); ++x) {
        double extra = bytesOf(node, x) - bytesOf(node, choice[node]);
        double cost = costAround(choice, node, x);
        if (extra > slack || !(cost < current))
          continue;
        choice[node] = x;
        slack -= extra;
        current = cost;
        changed = true;
      }
    }
  }
}

Result<Solution> LagrangianSolver::run() {
  bool fits = false;
  if (Status status = trySolve(0, fits); !status)
    return Error{status.error()};
  if (fits) { // Optimal without the limit, so optimal with it.
    incumbent->lowerBound = bound;
    return *incumbent;
  }
  Result<Solution> least = leastBytes();
  if (!least)
    return Error{least.error()};
  if (least->objective > problem.memoryLimit)
    return Error{(least->lowerBound > problem.memoryLimit
                      ? "no assignment fits: the least memory is "
                      : "no assignment was found that fits: the least is ") +
                 std::to_string(least->objective) +
                 " bytes; expected at most " +
                 std::to_string(problem.memoryLimit)};
  offer(least->choice);
  double low = 0;
  double spread = std::abs(incumbent->objective - bound);
  if (!std::isfinite(spread)) // No bound yet, only guesses.
    spread = std::abs(incumbent->objective - tooLarge->objective);
  spread = std::max(spread, 1e-12);
  double high = spread / std::max(tooLarge->bytes - problem.memoryLimit, 1.0);
  for (uint32_t i = 0; i < options.maxIterations && !isClosed(); ++i) {
    bool isDoubling = !fits;
    double price = isDoubling ? high : (low + high) / 2;
    bool fitsNow = false;
    if (Status status = trySolve(price, fitsNow); !status)
      return Error{status.error()};
    if (fitsNow) {
      fits = true;
      high = price;
      continue;
    }
    low = price;
    if (isDoubling)
      high *= 4;
  }
  for (Choice start : {incumbent->choice, tooLarge->choice}) {
    if (!repair(start))
      continue;
    improve(start);
    offer(start);
  }
  Solution result = *incumbent;
  result.lowerBound = std::min(bound, result.objective);
  return result;
}

Result<Solution> solveWithMemoryLimit(const Problem &problem,
                                      const LagrangianOptions &options) {
  if (Status status = problem.check(); !status)
    return Error{status.error()};
  if (problem.memoryLimit == forbidden)
    return solveByElimination(problem, options.elimination);
  return LagrangianSolver(problem, options).run();
}

} // namespace dpc::cost
