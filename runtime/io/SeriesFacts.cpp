#define XXH_INLINE_ALL
#include "runtime/io/SeriesFacts.h"

#include <algorithm>
#include <span>
#include <xxhash.h>

namespace dpc::rt {

/// The number of steps of a passage, which has at least eight numbers.
static int64_t stepsOfPassage(int64_t numbersPerStep) {
  return std::max<int64_t>(4, 8 / std::max<int64_t>(numbersPerStep, 1));
}

static int64_t numbersPerStep(const Port &port) {
  return port.globalShape.size() == 3 ? port.globalShape.back() : 1;
}

std::vector<SeriesFacts> seriesOf(const std::vector<Port> &ports) {
  std::vector<SeriesFacts> found;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port &port = ports[i];
    const size_t rank = port.globalShape.size();
    // Narrower types have few numbers, which are equal by chance.
    if (port.use == InputUse::Data &&
        (port.dtype == DType::F32 || port.dtype == DType::F64) &&
        (rank == 2 || rank == 3) &&
        port.globalShape[1] > stepsOfPassage(numbersPerStep(port)))
      found.emplace_back(i);
  }
  return found;
}

static bool areDistinct(std::span<const uint64_t> hashes) {
  for (size_t i = 0; i < hashes.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (hashes[i] == hashes[k])
        return false;
  return true;
}

/// Hashes passages as polynomials, so that the next one follows from the last
/// one.
void SeriesFacts::add(const Port &port, const void *data, int64_t count) {
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  const int64_t length = port.globalShape[1], width = numbersPerStep(port);
  const int64_t bytes = width * sizeOf(port.dtype);
  const int64_t steps = stepsOfPassage(width);
  const auto *from = static_cast<const std::byte *>(data);
  uint64_t top = 1;
  for (int64_t i = 0; i < steps; ++i)
    top *= kBase;
  std::vector<uint64_t> hashes(length);
  for (int64_t begin = 0; width > 0 && begin < count; begin += length * width) {
    uint64_t hash = 0;
    for (int64_t k = 0; k < length; ++k, from += bytes) {
      hashes[k] = XXH3_64bits(from, bytes);
      hash = hash * kBase + hashes[k];
      const int64_t first = k + 1 - steps;
      if (first > 0)
        hash -= top * hashes[first - 1];
      if (uint64_t own = mixed(hash);
          first >= 0 && passages.keeps(own) &&
          areDistinct(std::span(hashes).subspan(first, steps)))
        passages.add(own, first);
    }
  }
}

} // namespace dpc::rt
