#include "runtime/facts/SampleSketch.h"

#include <algorithm>

namespace dpc::rt {

using Json = nlohmann::json;

static constexpr size_t kMost = 1024; // hashes

SampleSketch SampleSketch::of(const std::vector<uint64_t> &hashes,
                              int64_t samples) {
  SampleSketch sketch;
  sketch.samples = samples;
  sketch.hashed = static_cast<int64_t>(hashes.size());
  for (auto first = hashes.begin(); first != hashes.end();) {
    auto end = std::find_if(first, hashes.end(),
                            [&](uint64_t hash) { return hash != *first; });
    sketch.single += end - first == 1 ? 1 : 0;
    if (sketch.smallest.size() < kMost)
      sketch.smallest.push_back(*first);
    first = end;
  }
  return sketch;
}

std::optional<double>
SampleSketch::shareOf(const std::vector<uint64_t> &hashes) const {
  constexpr int64_t kLeast = 16; // hashes that tell a share
  constexpr double kFewest = 0.1;
  // Larger hashes are unknown.
  auto end = smallest.size() < kMost
                 ? hashes.end()
                 : std::ranges::upper_bound(hashes, smallest.back());
  const int64_t count = end - hashes.begin();
  if (count < kLeast || hashed == 0)
    return std::nullopt;
  const int64_t known = std::count_if(hashes.begin(), end, [&](uint64_t hash) {
    return std::ranges::binary_search(smallest, hash);
  });
  const double share = static_cast<double>(known) / static_cast<double>(count);
  // The share of samples that repeat others estimates the probability that a
  // new sample equals one of them (Good, 1953).
  const double chance =
      1 - static_cast<double>(single) / static_cast<double>(hashed);
  if (share < kFewest + 2 * chance)
    return std::nullopt;
  return share;
}

Json SampleSketch::json() const {
  return {{"samples", samples},
          {"hashed", hashed},
          {"single", single},
          {"smallest", smallest}};
}

std::optional<SampleSketch> SampleSketch::parse(const Json &json) {
  SampleSketch sketch;
  for (const auto &[key, value] : {std::pair("samples", &sketch.samples),
                                   {"hashed", &sketch.hashed},
                                   {"single", &sketch.single}}) {
    if (!json.is_object() || !json.contains(key) ||
        !json[key].is_number_integer())
      return std::nullopt;
    *value = json[key];
  }
  if (!json.contains("smallest") || !json["smallest"].is_array())
    return std::nullopt;
  for (const Json &hash : json["smallest"]) {
    if (!hash.is_number_unsigned())
      return std::nullopt;
    sketch.smallest.push_back(hash);
  }
  if (!std::ranges::is_sorted(sketch.smallest) || sketch.single < 0 ||
      sketch.single > sketch.hashed || sketch.hashed > sketch.samples)
    return std::nullopt;
  return sketch;
}

} // namespace dpc::rt
