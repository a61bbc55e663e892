#include "runtime/data/SampleOrder.h"

#include "runtime/base/Random.h"

#include <numeric>
#include <string>
#include <utility>

namespace dpc::rt {

int64_t SampleOrder::at(int64_t epoch, int64_t position) {
  if (!seed)
    return position;
  if (shuffledEpoch != epoch)
    shuffle(epoch);
  return order[position];
}

/// The Fisher-Yates shuffle in Durstenfeld's version (Algorithm 235, CACM
/// 1964). A number below n is the upper half of the product of n and 64 random
/// bits; its bias is at most n / 2^64.
void SampleOrder::shuffle(int64_t epoch) {
  order.resize(samples);
  std::iota(order.begin(), order.end(), 0u);
  RandomStream stream(*seed, "epoch " + std::to_string(epoch));
  for (int64_t last = samples - 1; last > 0; --last) {
    auto wide = static_cast<unsigned __int128>(stream.bits(last)) *
                static_cast<uint64_t>(last + 1);
    std::swap(order[last], order[static_cast<uint64_t>(wide >> 64)]);
  }
  shuffledEpoch = epoch;
}

} // namespace dpc::rt
