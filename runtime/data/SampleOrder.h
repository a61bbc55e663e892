//===- SampleOrder.h - the order of samples ---------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_DATA_SAMPLEORDER_H
#define DPC_RUNTIME_DATA_SAMPLEORDER_H

#include <cstdint>
#include <optional>
#include <vector>

namespace dpc::rt {

/// The order of samples: the order of the file, or a new shuffle for each
/// epoch. It depends only on the seed, the epoch and the number of samples, not
/// on the number of ranks, and a resumed run continues it.
class SampleOrder {
public:
  /// The limit for shuffling: an order takes 4 bytes for each sample.
  static constexpr int64_t kMostShuffled = (int64_t(1) << 32) - 1;

  SampleOrder(int64_t samples, std::optional<uint64_t> seed)
      : samples(samples), seed(seed) {}

  /// The sample at `position` of 0 .. samples - 1 in `epoch` (0-based).
  int64_t at(int64_t epoch, int64_t position);

private:
  void shuffle(int64_t epoch);

  int64_t samples;
  std::optional<uint64_t> seed;
  int64_t shuffledEpoch = -1;
  std::vector<uint32_t> order; ///< of shuffledEpoch
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_DATA_SAMPLEORDER_H
