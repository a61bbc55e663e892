//===- StrategyShrink.cpp - The same parallelism on fewer ranks -----------===//
#include "cost-model/strategy/StrategyShrink.h"
#include "cost-model/strategy/BatchShares.h"

#include <algorithm>
#include <numeric>

namespace dpc::cost {

static int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

static std::vector<int64_t *> degreesOf(Strategy &strategy) {
  std::vector<int64_t *> degrees = {&strategy.dp, &strategy.cp};
  if (strategy.tp.grid.empty())
    degrees.push_back(&strategy.tp.ranks);
  for (int64_t &factor : strategy.tp.grid)
    degrees.push_back(&factor);
  degrees.push_back(&strategy.pp);
  return degrees;
}

static void multiplyGrid(Strategy &strategy) {
  const std::vector<int64_t> &grid = strategy.tp.grid;
  if (!grid.empty())
    strategy.tp.ranks = std::accumulate(grid.begin(), grid.end(), int64_t(1),
                                        std::multiplies<>());
}

static int64_t divisorUpTo(int64_t of, int64_t most) {
  int64_t divisor = std::max<int64_t>(1, std::min(of, most));
  while (of % divisor != 0)
    --divisor;
  return divisor;
}

static void halveDegrees(Strategy &strategy, int64_t maxRanks) {
  bool isHybrid =
      strategy.hybridShard > 1 && strategy.hybridShard < strategy.dp;
  while (strategy.ranks() > maxRanks) {
    int64_t *largest = nullptr;
    for (int64_t *degree : degreesOf(strategy)) {
      int64_t least = degree == &strategy.dp && isHybrid ? 4 : 2;
      if (*degree / 2 >= least && (!largest || *degree > *largest))
        largest = degree;
    }
    if (!largest)
      return;
    *largest /= 2;
    multiplyGrid(strategy);
  }
}

/// Reduces ep and hybrid_shard so that they divide the new degrees (S2).
static void fitInnerDegrees(Strategy &small, const Strategy &full) {
  if (full.hybridShard > 1 && full.hybridShard < full.dp)
    small.hybridShard =
        divisorUpTo(small.dp, std::min(full.hybridShard, small.dp / 2));
  else if (full.hybridShard > 1)
    small.hybridShard = small.dp;
  if (full.ep <= 1)
    return;
  int64_t inside = small.hybridShard > 1 ? small.hybridShard : small.dp;
  if (full.dp % full.ep == 0)
    small.ep = divisorUpTo(inside, full.ep);
  else
    small.ep = small.tp * divisorUpTo(inside, full.ep / full.tp);
}

/// Gives the first rank one micro-batch more than the middle ranks, and the
/// last rank one less.
static BatchShares someUnevenShares(int64_t dp, int64_t microBatches) {
  std::vector<int64_t> shares(dp, microBatches);
  ++shares.front();
  --shares.back();
  return sharesFrom(shares);
}

ShrunkStrategy shrinkStrategy(const Strategy &strategy, int64_t globalBatch,
                              int64_t maxRanks) {
  ShrunkStrategy result{strategy, globalBatch};
  Strategy &small = result.strategy;
  halveDegrees(small, maxRanks);
  fitInnerDegrees(small, strategy);
  small.vpp = std::min<int64_t>(strategy.vpp, 2);
  int64_t share = ceilDivide(globalBatch, strategy.dp);
  int64_t microBatches = strategy.microBatches(globalBatch);
  bool cuts = microBatches > 1;
  int64_t samples = std::min<int64_t>(cuts ? strategy.microBatch : share, 2);
  small.microBatch = cuts ? samples : 0;
  int64_t loops = std::min(microBatches, 2 * std::max<int64_t>(small.pp, 1));
  if (loops > 1 && strategy.batchShares.isUneven())
    small.batchShares = someUnevenShares(small.dp, loops);
  bool isUneven = globalBatch % strategy.dp != 0 ||
                  (cuts && share % strategy.microBatch != 0);
  result.globalBatch = small.dp * samples * loops;
  // The last micro-batch of the last rank has one sample less.
  if (isUneven && result.globalBatch > 1)
    --result.globalBatch;
  result.globalBatch = std::min(result.globalBatch, globalBatch);
  return result;
}

} // namespace dpc::cost
