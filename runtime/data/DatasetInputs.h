//===- DatasetInputs.h - batches of a dataset -------------------*- C++ -*-===//
#pragma once

#include "runtime/data/Dataset.h"
#include "runtime/io/InputSource.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace dpc::rt {

/// How the last step of an epoch is completed if the remaining samples do not
/// fill the step.
enum class LastBatch {
  Wrap, ///< add the first samples of the next epoch
  Drop, ///< omit the step
  Pad,  ///< repeat the last sample of the epoch; see samplesIn()
  Mask, ///< like Pad, and set the labels of repeated samples to IgnoredLabels
};

/// A loss ignores labels in the integer input `input` that equal `value`.
struct IgnoredLabels {
  std::string input;
  int64_t value = -100;
};

/// Returns the only input of labels (i32 or i64) with Port::ignored, or else
/// the one named "labels" or "label", preferably with Port::ignored. The value
/// is Port::ignored, or else the default.
std::optional<IgnoredLabels> usualLabels(const Plan &plan);

/// Refuses an input that `plan` lacks or that holds no integers, and a label
/// that it does not accept.
Status checkLabels(const Plan &plan, const IgnoredLabels &ignored);

/// The order of samples in each epoch: the order of the file, or a shuffle. The
/// order depends only on the seed, the epoch and the number of samples, so a
/// run with a different number of ranks can resume it.
class SampleOrder {
public:
  /// The most samples that can be shuffled. An order takes 4 bytes per sample.
  static constexpr int64_t kMostShuffled = (int64_t(1) << 32) - 1;

  SampleOrder(int64_t samples, std::optional<uint64_t> seed)
      : samples(samples), seed(seed) {}

  /// Returns the sample at `position` of `epoch`; both are 0-based.
  int64_t at(int64_t epoch, int64_t position);

private:
  void shuffle(int64_t epoch);

  int64_t samples;
  std::optional<uint64_t> seed;
  int64_t shuffledEpoch = -1;
  std::vector<uint32_t> order;
};

struct DataOptions {
  /// The seed of the shuffle; if unset, samples are in the order of the file.
  std::optional<uint64_t> shuffle = std::nullopt;
  LastBatch last = LastBatch::Wrap;
  IgnoredLabels ignored = {};
};

/// Reads the samples of a dataset in SampleOrder, step by step. While a step
/// runs, a thread prefetches the samples of the next step.
class DatasetInputs : public InputSource {
public:
  static Expected<std::unique_ptr<InputSource>>
  open(const Plan &plan, std::unique_ptr<Dataset> dataset,
       const DataOptions &options);
  ~DatasetInputs() override;

  int64_t steps() const override { return stepsFor(samples); }
  Expected<std::vector<const void *>> load(int64_t step) override;
  int64_t samplesIn(int64_t step) const override;
  std::string ignoredInput() const override {
    return options.last == LastBatch::Mask ? options.ignored.input : "";
  }
  std::string mapping() const override { return dataset->mapping(); }
  std::vector<std::string> unread() const override { return dataset->unread(); }
  std::vector<DType> storedTypes() const override {
    return dataset->storedTypes();
  }
  Expected<DataFacts> scan(const ScanLimits &limits = {}) const override;
  int64_t ignoredStep(const DataFacts &facts, int64_t first,
                      int64_t last) override;
  int64_t lastStepOf(int64_t epochs) const override;
  std::string contentHash() const override;
  DataPosition positionAfter(int64_t step) const override;
  /// Continues with the next sample. The number of samples per step may have
  /// changed since the checkpoint; the dataset and the order must be unchanged.
  Status resumeAt(int64_t step, const DataPosition &position) override;

private:
  struct Batch {
    int64_t step = -1;
    std::vector<HostTensor> arrays;
    Status status;
  };
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
  std::vector<Port> ports;          ///< the inputs
  std::vector<int64_t> sampleBytes; ///< of each input
  size_t labels = 0;                ///< index of the input with the labels
  DType labelType = DType::I64;
  SampleOrder order;
  mutable std::string hash; ///< "" before the first contentHash()
  int64_t firstStep = 1;    ///< of this run
  Place firstPlace;         ///< the first sample of this run

  // The caller uses `current`. While `wanted` is above 0, only the thread uses
  // `next` and `order`; otherwise only the caller does.
  Batch current, next;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t wanted = 0; ///< step to prefetch into `next`; 0: none
  bool stops = false;
  std::thread thread;
};

} // namespace dpc::rt
