#include "runtime/facts/FrequentIds.h"

#include "runtime/facts/DataProfile.h"

#include <algorithm>
#include <vector>

namespace dpc::rt {

FrequentIds::FrequentIds(const Shares &shares) {
  std::vector<std::pair<double, int64_t>> order;
  double all = 0, sum = 0;
  for (const auto &[index, part] : shares)
    if (part < kPadding) {
      order.emplace_back(-part, index);
      all += part;
    } else {
      padding.insert(index);
    }
  std::ranges::sort(order);
  for (const auto &[part, index] : order)
    if (2 * sum < all) {
      frequent.insert(index);
      sum -= part;
    }
  ownShare = all > 0 ? sum / all : 0;
}

size_t FrequentIds::countIn(const FrequentIds &others) const {
  return std::ranges::count_if(
      frequent, [&](int64_t id) { return others.frequent.contains(id); });
}

double FrequentIds::partIn(const Shares &others, int64_t shift) const {
  double all = 0, sum = 0;
  for (const auto &[index, part] : others) {
    const int64_t moved = InputProfile::counterOf(index - shift);
    if (padding.contains(index))
      continue;
    all += part;
    sum += frequent.contains(moved) ? part : 0;
  }
  return all > 0 && ownShare > 0 ? sum / all / ownShare : 1;
}

} // namespace dpc::rt
