#include "runtime/facts/PassageSet.h"

#include <algorithm>

namespace dpc::rt {

void PassageSet::add(uint64_t hash, int64_t offset) {
  constexpr size_t kMost = size_t(1) << 20;
  if (!keeps(hash))
    return;
  passages.emplace_back(hash, offset);
  if (passages.size() < kMost)
    return;
  removeRepeated();
  while (passages.size() > kMost / 2) {
    mask = 2 * mask + 1;
    std::erase_if(passages,
                  [&](const Passage &one) { return !keeps(one.first); });
  }
}

void PassageSet::removeRepeated() {
  std::ranges::sort(passages);
  auto repeated = std::ranges::unique(passages);
  passages.erase(repeated.begin(), repeated.end());
}

std::optional<double> PassageSet::shareIn(const PassageSet &training,
                                          bool elsewhere) const {
  constexpr int64_t kLeast = 16;
  auto isIn = [&](const Passage &passage) {
    auto same = std::ranges::equal_range(training.passages, passage.first, {},
                                         &Passage::first);
    return std::ranges::any_of(same, [&](const Passage &other) {
      return !elsewhere || other.second != passage.second;
    });
  };
  int64_t all = 0, common = 0;
  for (const Passage &passage : passages)
    if (training.keeps(passage.first)) {
      ++all;
      common += isIn(passage) ? 1 : 0;
    }
  if (all < kLeast)
    return std::nullopt;
  return static_cast<double>(common) / static_cast<double>(all);
}

} // namespace dpc::rt
