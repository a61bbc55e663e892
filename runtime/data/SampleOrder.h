//===- SampleOrder.h - which sample comes when ------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_DATA_SAMPLEORDER_H
#define DPC_RUNTIME_DATA_SAMPLEORDER_H

#include <cstdint>
#include <optional>
#include <vector>

namespace dpc::rt {

/// The order in which samples are taken, epoch after epoch: as they lie in the
/// file, or shuffled anew for each epoch. It depends on the seed, the epoch and
/// the number of samples alone: any number of ranks, and a run that goes on
/// from a checkpoint, sees the same.
class SampleOrder {
public:
  /// More cannot be shuffled: an order keeps 4 bytes for each.
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
