//===- Changes.h - From a baseline to the winner ----------------*- C++ -*-===//
//
// Private to the search. The winner and the baseline that it is compared with
// differ in some keys. These change group by group, and every plan between the
// two is evaluated, so that the report says what each change brings. The
// effects of all changes add up to the difference of the two plans.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_CHANGES_H
#define DPC_COST_MODEL_SEARCH_CHANGES_H

#include "cost-model/search/CandidatePool.h"

namespace dpc::cost {

/// SearchResult::changedFrom and SearchResult::changes.
struct ChangesToWinner {
  std::string from;
  std::vector<Change> changes;
};

/// Evaluates the plans between the baseline and the winner, and confirms the
/// winner. Empty where there is no baseline, or where it is the winner.
ChangesToWinner findChanges(const SearchProblem &problem, CandidatePool &pool);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_CHANGES_H
