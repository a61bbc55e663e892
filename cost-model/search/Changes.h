//===- Changes.h - From a baseline to the winner ----------------*- C++ -*-===//
//
// Private to the search. The winner and the baseline that it is compared with
// differ in some keys. These keys change group by group, and every plan on the
// way is evaluated, so that the report can show the effect of each change. The
// effects of all changes add up to the difference between the two plans.
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
/// winner. Empty if there is no baseline, or if the baseline is the winner.
ChangesToWinner findChanges(const SearchProblem &problem, CandidatePool &pool);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_CHANGES_H
