//===- BatchShares.cpp - Uneven shares of the batch -----------------------===//

#include "cost-model/strategy/BatchShares.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <queue>

namespace dpc::cost {

Expected<std::vector<int64_t>>
shareMicroBatches(const std::vector<int64_t> &ratios, int64_t dp,
                  int64_t microBatches) {
  std::vector<int64_t> shares;
  int64_t count = static_cast<int64_t>(ratios.size());
  if (std::all_of(ratios.begin(), ratios.end(),
                  [&](int64_t r) { return r == ratios.front(); }))
    return shares;
  std::string named = "batch_shares=" + printValue(sharesFrom(ratios));
  if (dp % count != 0)
    return Error{named + " has " + std::to_string(count) +
                 " ratios; expected a divisor of dp = " + std::to_string(dp)};
  int64_t sum =
      std::accumulate(ratios.begin(), ratios.end(), int64_t(0)) * (dp / count);
  for (int64_t rank = 0; rank < dp; ++rank) {
    int64_t parts = ratios[rank / (dp / count)] * dp * microBatches;
    if (parts % sum != 0)
      return Error{
          named + " does not give whole micro-batches: a step has " +
          std::to_string(dp * microBatches) +
          "; expected a micro_batch for which a step has a multiple of " +
          std::to_string(sum) + " micro-batches on " + std::to_string(dp) +
          " data-parallel ranks"};
    shares.push_back(parts / sum);
  }
  return shares;
}

std::vector<int64_t> fastestShares(const std::vector<double> &seconds,
                                   int64_t total) {
  int64_t ranks = static_cast<int64_t>(seconds.size());
  assert(total >= ranks && "every rank takes a micro-batch");
  std::vector<int64_t> shares(ranks, 1);
  // {seconds of the rank if it takes one more micro-batch, rank}
  using Next = std::pair<double, int64_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ends;
  for (int64_t rank = 0; rank < ranks; ++rank)
    ends.emplace(2 * seconds[rank], rank);
  for (int64_t left = total - ranks; left > 0; --left) {
    int64_t rank = ends.top().second;
    ends.pop();
    ++shares[rank];
    ends.emplace(static_cast<double>(shares[rank] + 1) * seconds[rank], rank);
  }
  return shares;
}

BatchShares sharesFrom(const std::vector<int64_t> &shares) {
  int64_t common = 0;
  for (int64_t share : shares)
    common = std::gcd(common, share);
  auto hasRunsOf = [&](size_t run) {
    bool has = shares.size() % run == 0;
    for (size_t i = 0; has && i < shares.size(); ++i)
      has = shares[i] == shares[i - i % run];
    return has;
  };
  size_t run = std::max<size_t>(1, shares.size());
  while (!hasRunsOf(run))
    --run;
  BatchShares result = BatchShares::even();
  for (size_t i = 0; i < shares.size(); i += run)
    result.ratios.push_back(shares[i] / common);
  return result;
}

} // namespace dpc::cost
