//===- DatasetInputs.h - batches of a dataset -------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_DATA_DATASETINPUTS_H
#define DPC_RUNTIME_DATA_DATASETINPUTS_H

#include "runtime/data/Dataset.h"
#include "runtime/io/InputSource.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace dpc::rt {

/// How the last step of an epoch is filled.
enum class LastBatch {
  Wrap, ///< complete the step with the first samples of the next epoch
  Drop, ///< leave out the remaining samples
  Pad,  ///< repeat the last sample; see samplesIn()
  Mask, ///< like Pad, but repeated samples have IgnoredLabels
};

/// The value of labels, in the integer input `input`, that a loss leaves out of
/// its mean.
struct IgnoredLabels {
  std::string input;
  int64_t value = -100;
};

/// The labels of a plan: its integer input "labels" or "label", if there is
/// one.
std::optional<IgnoredLabels> usualLabels(const Plan &plan);

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

struct DataOptions {
  /// Seed of the order; without a seed, samples keep the order of the file.
  std::optional<uint64_t> shuffle = std::nullopt;
  LastBatch last = LastBatch::Wrap;
  IgnoredLabels ignored = {}; ///< for LastBatch::Mask
};

/// The samples of a dataset in SampleOrder, step by step. A thread prefetches
/// the samples of the next step while a step runs.
class DatasetInputs : public InputSource {
public:
  static Expected<std::unique_ptr<InputSource>>
  open(const Plan &plan, std::unique_ptr<Dataset> dataset,
       const DataOptions &options);
  ~DatasetInputs() override;

  /// The number of steps in an epoch.
  int64_t steps() const override { return stepsFor(samples); }
  Expected<std::vector<const void *>> load(int64_t step) override;
  int64_t samplesIn(int64_t step) const override;
  std::string ignoredInput() const override {
    return options.last == LastBatch::Mask ? options.ignored.input : "";
  }
  int64_t lastStepOf(int64_t epochs) const override;
  DataPosition positionAfter(int64_t step) const override;
  /// Continues with the next sample, even if a step now takes a different
  /// number of samples. Refuses a different dataset or order.
  Status resumeAt(int64_t step, const DataPosition &position) override;

private:
  /// The samples of one step.
  struct Batch {
    int64_t step = -1;
    std::vector<HostTensor> arrays; ///< one for each input
    Status status;
  };
  /// A place in the order.
  struct Place {
    int64_t epoch = 0, position = 0;
  };

  DatasetInputs(const Plan &plan, std::unique_ptr<Dataset> dataset,
                const DataOptions &options);
  int64_t stepsFor(int64_t count) const;
  Place placeOf(int64_t step) const;
  std::string orderName() const;
  bool repeatsLast() const {
    return options.last == LastBatch::Pad || options.last == LastBatch::Mask;
  }
  void fill(Batch &batch);
  void mask(std::byte *sample) const;
  void prefetch();

  std::unique_ptr<Dataset> dataset;
  DataOptions options;
  int64_t samples, perStep;
  std::vector<int64_t> sampleBytes; ///< of each input
  size_t labels = 0;                ///< the index of the masked input
  DType labelType = DType::I64;
  SampleOrder order;
  int64_t firstStep = 1; ///< of this run
  Place firstPlace;      ///< the first sample of this run

  // Only the caller uses `current`. The thread uses `next` while `wanted` is
  // above 0. `order` is used by whichever of the two fills a batch.
  Batch current, next;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t wanted =
      0; ///< the step that the thread prefetches into `next`; 0: none
  bool stops = false;
  std::thread thread;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_DATA_DATASETINPUTS_H
