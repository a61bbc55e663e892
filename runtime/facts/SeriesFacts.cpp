#define XXH_INLINE_ALL
#include "runtime/facts/SeriesFacts.h"

#include <algorithm>
#include <cmath>
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

/// Of one-hot rows, for example, there are so few that every passage occurs.
bool SeriesFacts::areComparable() const {
  constexpr double kBits = 20; // one passage in a million is equal by chance
  return static_cast<double>(passageSteps) *
             std::log2(static_cast<double>(steps.size())) >=
         std::log2(static_cast<double>(added)) + kBits;
}

void SeriesFacts::add(const Port &port, const void *data, int64_t count) {
  const int64_t length = port.globalShape[1], width = numbersPerStep(port);
  const int64_t bytes = width * sizeOf(port.dtype);
  constexpr size_t kMostSteps = size_t(1) << 16;
  passageSteps = stepsOfPassage(width);
  const auto *from = static_cast<const std::byte *>(data);
  std::vector<uint64_t> hashes(length);
  for (int64_t begin = 0; width > 0 && begin < count; begin += length * width) {
    RollingHash rolling(passageSteps);
    for (int64_t k = 0; k < length; ++k, from += bytes) {
      hashes[k] = XXH3_64bits(from, bytes);
      if (steps.size() < kMostSteps)
        steps.insert(hashes[k]);
      added += k + 1 >= passageSteps ? 1 : 0;
      const int64_t first = k + 1 - passageSteps;
      if (uint64_t own =
              mixed(rolling.next(hashes[k], first > 0 ? hashes[first - 1] : 0));
          first >= 0 && passages.keeps(own) &&
          areDistinct(std::span(hashes).subspan(first, passageSteps)))
        passages.add(own, first);
    }
  }
}

} // namespace dpc::rt
