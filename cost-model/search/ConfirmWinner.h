//===- ConfirmWinner.h - Exact evaluations of the winner --------*- C++ -*-===//
//
// Private to the search. Composed and folded evaluations have small errors.
// These functions evaluate the most promising candidates exactly, until the
// first candidate is exact and no other candidate may be better.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_CONFIRMWINNER_H
#define DPC_COST_MODEL_SEARCH_CONFIRMWINNER_H

#include "cost-model/search/CandidatePool.h"

#include <functional>

namespace dpc::cost {

/// Sorts the pool and evaluates its composed candidates exactly, until the
/// first candidate is exact and no other candidate may be better. After `most`
/// evaluations, only the first candidate is evaluated, with the second one at
/// the same time.
void settle(const SearchProblem &problem, CandidatePool &pool, size_t most);

/// Whether a candidate fits. Settles the first candidate before it answers,
/// because the memory of a composed evaluation may be too low.
bool anyFitsConfirmed(const SearchProblem &problem, CandidatePool &pool);

/// Evaluates the first candidate from the whole program, and repeats this until
/// the first candidate stays the first. Does nothing unless the options require
/// it or the candidate might not fit. Runs `meanwhile` concurrently with the
/// first evaluation, which keeps one thread busy for a while.
void confirmWinner(const SearchProblem &problem, CandidatePool &pool,
                   std::function<void()> meanwhile = nullptr);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_CONFIRMWINNER_H
