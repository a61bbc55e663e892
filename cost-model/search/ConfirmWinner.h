//===- ConfirmWinner.h - Exact evaluations of the winner --------*- C++ -*-===//
#pragma once

#include "cost-model/search/CandidatePool.h"

#include <functional>

namespace dpc::cost {

/// Sorts the pool and evaluates its composed candidates exactly, because their
/// evaluations have small errors. Stops when the first candidate is exact and
/// no other candidate may be better. After `most` evaluations, only evaluates
/// the first candidate, together with the second one.
void settle(const SearchProblem &problem, CandidatePool &pool, size_t most);

/// Returns whether a candidate fits. First settles the winner, because the
/// memory of a composed evaluation may be too low.
bool anyFitsConfirmed(const SearchProblem &problem, CandidatePool &pool);

/// Evaluates the first candidate from the whole program. Repeats this if
/// another candidate is then the first. Does nothing unless confirmsWinner is
/// set or the candidate might not fit. `meanwhile` runs concurrently with the
/// first evaluation, which keeps only one thread busy.
void confirmWinner(const SearchProblem &problem, CandidatePool &pool,
                   std::function<void()> meanwhile = nullptr);

} // namespace dpc::cost
