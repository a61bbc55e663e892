//===- Solvers.h - The solver of the strategy graph -------------*- C++ -*-===//
//
// The solver calls Problem::check() first and Problem::verify() last, is
// deterministic, and reports infeasibility as an error. Ties between optimal
// solutions go to lower option indices.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SOLVE_SOLVERS_H
#define DPC_COST_MODEL_SOLVE_SOLVERS_H

#include "cost-model/solve/Problem.h"

namespace dpc::cost {

struct EliminationOptions {
  /// The most entries of a table that an elimination may build.
  uint64_t maxTableEntries = uint64_t(1) << 21;
  /// When every table would exceed the limit, the solver conditions on nodes of
  /// large degree: it solves the remaining problem once for each combination of
  /// their options. This field limits the number of combinations.
  uint64_t maxConditionings = 4096;
  /// Beyond `maxConditionings`, the solver guesses: a node of large degree gets
  /// its most promising option, and a different option only if that leaves no
  /// solution. This field limits the number of guesses.
  uint64_t maxGuesses = 256;
};

struct EliminationStats {
  uint32_t width = 0; ///< The largest number of neighbours that a node has when
                      ///< it is eliminated.
  uint64_t largestTable = 0;     ///< Entries.
  uint32_t conditionedNodes = 0; ///< See EliminationOptions.
  uint64_t guesses = 0;          ///< 0 when the solution is optimal.
};

/// Exact: min-degree bucket elimination. Time and memory grow with
/// options^treewidth. The solver conditions on nodes of large degree (a tied
/// embedding), and guesses their options if conditioning takes too long; a
/// guessed solution may not be optimal. Fails and names the node when no guess
/// leaves a solution.
Expected<Solution> solveByElimination(const Problem &problem,
                                      const EliminationOptions &options = {},
                                      EliminationStats *stats = nullptr);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SOLVE_SOLVERS_H
