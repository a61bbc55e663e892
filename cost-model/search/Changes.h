//===- Changes.h - From a baseline to the winner ----------------*- C++ -*-===//
//
// Private to the search. The report shows the effect of each change between a
// baseline and the winner. For this, the keys in which both plans differ change
// group by group, and every plan on the way is evaluated. The effects of all
// changes add up to the difference between the two plans.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/CandidatePool.h"

namespace dpc::cost {

/// SearchResult::changedFrom and SearchResult::changes.
struct ChangesToWinner {
  std::string from;
  std::vector<Change> changes;
};

/// Evaluates the plans on the way from the baseline to the winner, and confirms
/// the winner. Empty if there is no baseline, or if the baseline is the winner.
ChangesToWinner findChanges(const SearchProblem &problem, CandidatePool &pool);

} // namespace dpc::cost
