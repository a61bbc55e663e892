//===- Explain.h - Why candidates lose --------------------------*- C++ -*-===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/CandidatePool.h"

namespace dpc::cost {

/// Returns a text such as "memory 90.0 GiB > 74.5 GiB".
std::string overMemory(double bytes, double limit);

/// Sets `why` of the candidates and baselines of `result`.
void explainCandidates(const SearchProblem &problem, SearchResult &result);

/// Sets `bindingConstraint` and `bindingDetail` of `result`.
void findBindingConstraint(const SearchProblem &problem, SearchResult &result);

} // namespace dpc::cost
