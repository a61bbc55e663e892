//===- ConfirmWinner.h - Exact evaluations of the winner --------*- C++ -*-===//
//
// Private to the search. Composed and folded evaluations have small errors.
// These functions evaluate the most promising candidates exactly, until the
// first one is exact and no other one may be better.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_CONFIRMWINNER_H
#define DPC_COST_MODEL_SEARCH_CONFIRMWINNER_H

#include "cost-model/search/CandidatePool.h"

#include <functional>

namespace dpc::cost {

/// Sorts the pool and evaluates its composed candidates exactly, until the
/// first candidate is exact and none is left that may be better. After `most`
/// evaluations it only evaluates the first candidate, and the second one at the
/// same time.
void settle(const SearchProblem &problem, CandidatePool &pool, size_t most);

/// Whether a candidate fits. The first candidate is settled before, because the
/// memory of a composed evaluation may be too low.
bool anyFitsConfirmed(const SearchProblem &problem, CandidatePool &pool);

/// Evaluates the first candidate whole, until it stays the first. Does so only
/// where the options ask for it or where the candidate might not fit. Runs
/// `meanwhile` next to the first such evaluation, which takes one thread a
/// while.
void confirmWinner(const SearchProblem &problem, CandidatePool &pool,
                   std::function<void()> meanwhile = nullptr);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_CONFIRMWINNER_H
