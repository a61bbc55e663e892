//===- Solvers.h - The solver of the strategy graph -------------*- C++ -*-===//
//
// The solver calls Problem::check() first and Problem::verify() last. It is
// deterministic. On ties between optimal solutions, it chooses the lower option
// indices. If no solution exists, it returns an error.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/solve/Problem.h"

namespace dpc::cost {

struct EliminationOptions {
  /// The largest number of entries in a table that an elimination may build.
  uint64_t maxTableEntries = uint64_t(1) << 21;
  /// If every table would exceed the limit, the solver conditions on nodes of
  /// large degree: it solves the remaining problem once for each combination of
  /// their options. This field limits the number of combinations.
  uint64_t maxConditionings = 4096;
  /// Beyond `maxConditionings`, the solver guesses: it assigns the most
  /// promising option to a node of large degree, and tries a different option
  /// only if there is no solution. This field limits the number of guesses.
  uint64_t maxGuesses = 256;
};

struct EliminationStats {
  uint32_t width = 0;            ///< Width of the elimination order.
  uint64_t largestTable = 0;     ///< Entries.
  uint32_t conditionedNodes = 0; ///< See EliminationOptions.
  uint64_t guesses = 0;          ///< If 0, the solution is optimal.
};

/// Solves the problem by min-degree bucket elimination. Time and memory grow
/// with options^treewidth. The solver conditions on nodes of large degree (a
/// tied embedding), and guesses their options if conditioning takes too long.
/// Without guesses the solution is optimal. If no guess gives a solution, the
/// error names a node.
Expected<Solution> solveByElimination(const Problem &problem,
                                      const EliminationOptions &options = {},
                                      EliminationStats *stats = nullptr);

} // namespace dpc::cost
