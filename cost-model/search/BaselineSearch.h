//===- BaselineSearch.h - Strategies that people use by default -*- C++ -*-===//
//
// Private to the search. The formulas propose a plan for each baseline; the
// evaluator answers for the plans that may fit.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_BASELINESEARCH_H
#define DPC_COST_MODEL_SEARCH_BASELINESEARCH_H

#include "cost-model/search/CandidatePool.h"

namespace dpc::cost {

/// Megatron-LM's layouts: tp inside a node, pp over the layers, dp the rest.
std::vector<Strategy> megatronStrategies(const SearchProblem &problem);

/// Whether the keys of `strategy` are those of such a layout.
bool isMegatronLike(const Strategy &strategy, const Cluster &cluster);

/// The best plans of DDP and of ZeRO 1, 2 and 3 on all devices.
std::vector<Baseline> dataParallelBaselines(const SearchProblem &problem);

/// Megatron-LM's best layout, and the best plan on one device.
struct OtherBaselines {
  Candidate megatron;
  /// For comparison only: it is not a candidate, because IdleDevices.h searches
  /// parts of the cluster. Not set where the cluster has one device.
  std::optional<Candidate> single;
};

/// Evaluates both at the same time. `megatron` is used where the search knows
/// that layout already.
OtherBaselines otherBaselines(const SearchProblem &problem,
                              std::optional<Candidate> megatron);

/// Adds the baselines that fit and are allowed to the candidates, so that no
/// baseline is better than the winner.
void addBaselinesToCandidates(const SearchProblem &problem,
                              CandidatePool &pool);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_BASELINESEARCH_H
