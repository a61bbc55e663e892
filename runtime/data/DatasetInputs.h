//===- DatasetInputs.h - a dataset's samples, batch by batch ----*- C++ -*-===//
#ifndef DPC_RUNTIME_DATA_DATASETINPUTS_H
#define DPC_RUNTIME_DATA_DATASETINPUTS_H

#include "runtime/data/Dataset.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/io/InputSource.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace dpc::rt {

/// What becomes of samples at the end of an epoch that fill no step.
enum class LastBatch {
  Wrap, ///< the next epoch's first ones are taken with them
  Drop, ///< they are left out of this epoch
  Pad,  ///< the last one is repeated; samplesIn() tells how many count
  Mask, ///< the same, and the labels of the repeated ones are IgnoredLabels
};

/// Labels that a loss leaves out of its mean: of `input`, an integer one.
struct IgnoredLabels {
  std::string input;
  int64_t value = -100;
};

/// The input that holds a plan's labels, by its name: "labels" or "label".
std::optional<IgnoredLabels> usualLabels(const Plan &plan);

struct DataOptions {
  /// Seed; without: as they lie in the file.
  std::optional<uint64_t> shuffle = std::nullopt;
  LastBatch last = LastBatch::Wrap;
  IgnoredLabels ignored = {}; ///< of LastBatch::Mask
};

/// Takes the samples of a dataset in SampleOrder, as many as a step has. The
/// next step's are copied by a thread while a step runs.
class DatasetInputs : public InputSource {
public:
  static Expected<std::unique_ptr<InputSource>>
  open(const Plan &plan, std::unique_ptr<Dataset> dataset,
       const DataOptions &options);
  ~DatasetInputs() override;

  /// Of an epoch.
  int64_t steps() const override { return stepsFor(samples); }
  Expected<std::vector<const void *>> load(int64_t step) override;
  int64_t samplesIn(int64_t step) const override;
  std::string ignoredInput() const override {
    return options.last == LastBatch::Mask ? options.ignored.input : "";
  }
  int64_t lastStepOf(int64_t epochs) const override;
  DataPosition positionAfter(int64_t step) const override;
  /// Another number of samples a step than before goes on with the next
  /// sample. Another dataset or order is refused.
  Status goOn(int64_t step, const DataPosition &position) override;

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
  size_t labels = 0;                ///< the input that is masked
  DType labelType = DType::I64;
  SampleOrder order;
  int64_t firstStep = 1; ///< of this run
  Place firstPlace;      ///< its first sample

  // `current` belongs to the caller, `next` to the thread while `wanted` is
  // above 0, and `order` to who fills.
  Batch current, next;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t wanted = 0; ///< step that the thread fills `next` with; 0: none
  bool stops = false;
  std::thread thread;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_DATA_DATASETINPUTS_H
