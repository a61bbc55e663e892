//===- BaselineSearch.h - The baselines of a search ------------*- C++ -*-===//
//
// Private to the search. The formulas propose a plan for each baseline; the
// evaluator evaluates the proposed plans that may fit.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_BASELINESEARCH_H
#define DPC_COST_MODEL_SEARCH_BASELINESEARCH_H

#include "cost-model/search/CandidatePool.h"

namespace dpc::cost {

/// Megatron-LM's layouts: tp inside a node, pp over the layers, dp the rest.
std::vector<Strategy> megatronStrategies(const SearchProblem &problem);

/// Whether `strategy` is one of Megatron-LM's layouts.
bool isMegatronLike(const Strategy &strategy, const Cluster &cluster);

/// The best plans with DDP and with ZeRO 1, 2 and 3 on all devices.
std::vector<Baseline> dataParallelBaselines(const SearchProblem &problem);

/// Megatron-LM's best layout, and the best plan on one device.
struct OtherBaselines {
  Candidate megatron;
  /// For comparison only. The plan on one device is not a candidate, because
  /// IdleDevices.h searches parts of the cluster. Unset if the cluster has one
  /// device.
  std::optional<Candidate> single;
};

/// Evaluates both baselines at the same time. If `megatron` is set, it is used
/// instead of an evaluation.
OtherBaselines otherBaselines(const SearchProblem &problem,
                              std::optional<Candidate> megatron);

/// Adds the baselines that fit and are allowed to the candidates. So no
/// baseline is better than the winner.
void addBaselinesToCandidates(const SearchProblem &problem,
                              CandidatePool &pool);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_BASELINESEARCH_H
