//===- BaselineStrategies.cpp - Plain strategies everybody knows ----------===//

#include "cost-model/SearchParts.h"

#include <numeric>

namespace dpc::cost {

/// Pure data parallelism with the wanted ZeRO stage, over micro-batch sizes.
std::vector<Strategy> dataParallelStrategies(const SearchOptions &options,
                                             int64_t zero) {
  StrategyRequest request;
  request.dp = options.space.ranks;
  request.tp = request.ep = 1;
  request.microBatch = options.request.microBatch;
  std::vector<Strategy> strategies =
      enumerateStrategies(request, options.space);
  for (Strategy &strategy : strategies)
    strategy.zero = zero;
  return strategies;
}

/// What Megatron-LM sets besides the degrees.
static void addMegatron(const Strategy &degrees, const SearchOptions &options,
                        std::vector<Strategy> &strategies) {
  constexpr int64_t kMostSamples = 16;
  for (const char *recompute : {"none", "full"})
    for (int64_t size = 1; size <= kMostSamples; size *= 2) {
      strategies.push_back(degrees);
      strategies.back().recompute = recompute;
      strategies.back().microBatch = options.request.microBatch.value_or(size);
    }
}

/// tp inside a node, pp over the layers, dp the rest, with and without
/// recomputation; experts, where there are any, over as many data-parallel
/// ranks as there are.
std::vector<Strategy> megatronStrategies(const Cluster &cluster,
                                         const ModelTotals &totals,
                                         const SearchOptions &options) {
  std::vector<Strategy> strategies;
  int64_t ranks = options.space.ranks;
  for (int64_t tp = 1; tp <= cluster.devicesPerNode(); tp *= 2)
    for (int64_t pp = 1; pp <= totals.layers && tp * pp <= ranks; ++pp) {
      int64_t dp = ranks / (tp * pp);
      if (dp * tp * pp != ranks || totals.layers % pp != 0 ||
          dp > totals.globalBatch)
        continue;
      Strategy strategy;
      strategy.dp = dp;
      strategy.tp = tp;
      strategy.pp = pp;
      strategy.ep = std::gcd(dp, options.space.experts);
      addMegatron(strategy, options, strategies);
    }
  return strategies;
}

} // namespace dpc::cost
