//===- Solvers.h - Algorithms for the strategy graph ------------*- C++ -*-===//
//
// All solvers call Problem::check() first and Problem::verify() last, are
// deterministic, and report infeasibility as an error. Ties between optimal
// solutions are broken towards lower option indices; only the exhaustive solver
// promises the lexicographically smallest optimum.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_SOLVERS_H
#define DPC_COST_MODEL_SEARCH_SOLVERS_H

#include "cost-model/Problem.h"

namespace dpc::cost {

/// Tries all assignments: exact, with (C3). The oracle of the other solvers.
/// Fails when there are more than `limit` assignments.
Result<Solution> solveExhaustive(const Problem &problem,
                                 uint64_t limit = uint64_t(1) << 24);

struct EliminationOptions {
  /// Entries of the largest table an elimination may build.
  uint64_t maxTableEntries = uint64_t(1) << 21;
  /// When every table would grow past the limit, nodes of large degree are
  /// conditioned on: what is left is solved once per option. This is the most
  /// times that may happen, the product of their option counts.
  uint64_t maxConditionings = 4096;
  /// Where that is not enough such nodes get the option that promises most, one
  /// after the other, and another one only where that leaves no solution. This
  /// is how often.
  uint64_t maxGuesses = 256;
};

struct EliminationStats {
  uint32_t width = 0;            ///< Largest number of neighbours eliminated.
  uint64_t largestTable = 0;     ///< Entries.
  uint32_t conditionedNodes = 0; ///< See EliminationOptions.
  uint64_t guesses = 0;          ///< 0 when the solution is optimal.
};

/// Exact without (C3), which it ignores: min-degree bucket elimination. Time
/// and memory grow with options^treewidth. Nodes of large degree (a tied
/// embedding) are conditioned on, and guessed where that takes too long: then
/// the solution may not be optimal, and its lower bound says nothing. Fails,
/// naming the node, when no guess leaves a solution.
Result<Solution> solveByElimination(const Problem &problem,
                                    const EliminationOptions &options = {},
                                    EliminationStats *stats = nullptr);

struct LagrangianOptions {
  EliminationOptions elimination;
  uint32_t maxIterations = 40;
  double relativeGap = 1e-4; ///< Stop when (objective - bound) is this small.
};

/// With (C3): the limit is priced into the node costs by a multiplier found by
/// bisection over solveByElimination, then single nodes are improved while
/// the limit holds. Feasible and bounded, not always optimal: `lowerBound` of
/// the solution tells the gap. Fails when no assignment fits, naming the
/// least bytes any assignment needs.
Result<Solution> solveWithMemoryLimit(const Problem &problem,
                                      const LagrangianOptions &options = {});

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_SOLVERS_H
