//===- Exhaustive.cpp - All assignments of a strategy graph ---------------===//

#include "cost-model/solve/Solvers.h"

namespace dpc::cost {

/// The objective of a choice; infinity when (C2) fails. It is independent of
/// Problem::verify, which checks the result.
static double valueOf(const Problem &problem,
                      const std::vector<uint32_t> &choice) {
  double objective = 0;
  for (size_t id = 0; id < choice.size(); ++id)
    objective += problem.nodes()[id].cost[choice[id]];
  for (const Edge &edge : problem.edges())
    objective += problem.matrices()[edge.matrix].at(choice[edge.producer],
                                                    choice[edge.consumer]);
  return objective;
}

/// The lexicographically next assignment; false after the last.
static bool advance(const Problem &problem, std::vector<uint32_t> &choice) {
  for (size_t id = choice.size(); id-- > 0;) {
    if (++choice[id] < problem.nodes()[id].cost.size())
      return true;
    choice[id] = 0;
  }
  return false;
}

Expected<Solution> solveExhaustive(const Problem &problem, uint64_t limit) {
  if (Status status = problem.check(); !status)
    return Error{status.message()};
  uint64_t assignments = 1;
  for (const Node &node : problem.nodes()) {
    if (assignments > limit / node.cost.size())
      return Error{"exhaustive search: more than " + std::to_string(limit) +
                   " assignments; expected a smaller graph"};
    assignments *= node.cost.size();
  }
  std::vector<uint32_t> choice(problem.nodes().size(), 0);
  std::vector<uint32_t> best;
  double bestValue = forbidden;
  do {
    double value = valueOf(problem, choice);
    if (value < bestValue) {
      bestValue = value;
      best = choice;
    }
  } while (advance(problem, choice));
  if (bestValue == forbidden)
    return Error{"no assignment satisfies (C2)"};
  return problem.verify(best);
}

} // namespace dpc::cost
