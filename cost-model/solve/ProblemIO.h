//===- ProblemIO.h - Problems as JSON for tests and bug reports -*- C++ -*-===//
#ifndef DPC_COST_MODEL_SOLVE_PROBLEMIO_H
#define DPC_COST_MODEL_SOLVE_PROBLEMIO_H

#include "cost-model/solve/Problem.h"

namespace dpc::cost {

/// {"version": 1, "memory_limit": number|null, "nodes": [{"name", "cost",
/// "bytes"}], "matrices": [{"rows", "columns", "values"}], "edges":
/// [[producer, consumer, matrix]]}; a forbidden cost is null.
std::string writeProblem(const Problem &problem);

/// Inverse of writeProblem. Tests the form; call check() for the meaning.
Expected<Problem> readProblem(const std::string &text);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SOLVE_PROBLEMIO_H
