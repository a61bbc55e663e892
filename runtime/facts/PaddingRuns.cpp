#include "runtime/facts/PaddingRuns.h"

#include "runtime/base/HostTensor.h"

namespace dpc::rt {

/// Padding has at least as many different lengths.
static constexpr size_t kLeastLengths = 3;

std::vector<PaddingRuns::Run> PaddingRuns::add(const std::byte *ids,
                                               DType dtype, int64_t count) {
  constexpr size_t kMostRuns = 256;
  std::vector<Run> runs;
  ++added;
  for (bool isEnd : {true, false}) {
    auto idAt = [&](int64_t k) { // from the end, or from the begin
      return static_cast<int64_t>(
          loadAsDouble(ids, dtype, isEnd ? count - 1 - k : k));
    };
    const Key key{count > 0 ? idAt(0) : 0, isEnd};
    int64_t length = 1;
    while (length < count && idAt(length) == key.first)
      ++length;
    if (length < 2 || length >= count ||
        (counts.size() >= kMostRuns && !counts.contains(key)))
      continue;
    Count &found = counts[key];
    ++found.samples;
    if (found.lengths.size() < kLeastLengths)
      found.lengths.insert(length);
    // The id at the other end may be a mark of it.
    for (int64_t k = length; k + 1 < count; ++k)
      found.inside += idAt(k) == key.first ? 1 : 0;
    runs.push_back({key, length});
  }
  return runs;
}

int64_t PaddingRuns::samplesOf(const Key &key) const {
  auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second.samples;
}

bool PaddingRuns::isPadding(const Key &key) const {
  constexpr int64_t kLeastSamples = 8, kRarest = 8, kInside = 4;
  auto found = counts.find(key);
  if (found == counts.end())
    return false;
  const Count &count = found->second;
  return count.samples >= kLeastSamples && kRarest * count.samples >= added &&
         count.lengths.size() >= kLeastLengths &&
         kInside * count.inside <= count.samples;
}

std::vector<PaddingRuns::Key> PaddingRuns::padding() const {
  std::vector<Key> keys;
  for (const auto &[key, count] : counts)
    if (isPadding(key))
      keys.push_back(key);
  return keys;
}

} // namespace dpc::rt
