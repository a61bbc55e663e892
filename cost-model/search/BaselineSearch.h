//===- BaselineSearch.h - The baselines of a search ------------*- C++ -*-===//
#pragma once

#include "cost-model/search/CandidatePool.h"

namespace dpc::cost {

/// Returns Megatron-LM's layouts: tp inside a node, pp over the layers, and dp
/// over the remaining ranks.
std::vector<Strategy> megatronStrategies(const SearchProblem &problem);

bool isMegatronLike(const Strategy &strategy, const Cluster &cluster);

/// Returns the best plans with DDP and with ZeRO 1, 2 and 3 on all devices.
std::vector<Baseline> dataParallelBaselines(const SearchProblem &problem);

struct OtherBaselines {
  Candidate megatron;
  /// The plan on one device. It is not a candidate of this search, because
  /// IdleDevices.h searches single devices separately. Empty if the cluster has
  /// one device.
  std::optional<Candidate> single;
};

/// Evaluates both baselines at the same time. If `megatron` is set, it replaces
/// the evaluation of Megatron-LM's layouts.
OtherBaselines otherBaselines(const SearchProblem &problem,
                              std::optional<Candidate> megatron);

/// Adds the baselines that fit and are allowed to the candidates, so that no
/// baseline is better than the winner.
void addBaselinesToCandidates(const SearchProblem &problem,
                              CandidatePool &pool);

} // namespace dpc::cost
