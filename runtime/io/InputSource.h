//===- InputSource.h - the inputs of steps ----------------------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/base/Random.h"
#include "runtime/facts/DataFacts.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>

namespace dpc::rt {

/// The next sample that a run reads.
struct DataPosition {
  int64_t epoch = 0;    ///< 0-based
  int64_t position = 0; ///< index in the sample order of the epoch
  /// samples per epoch; 0: the data has steps
  int64_t samples = 0;
  std::string order; ///< "as they lie", "shuffled by seed 7"
  std::string hash;  ///< InputSource::contentHash(), or "" if unknown
  /// "wrap", "drop", "pad" or "mask" (LastBatch), or "" if unknown
  std::string lastBatch;
};

/// Provides the inputs of a plan, step by step.
class InputSource {
public:
  virtual ~InputSource() = default;

  /// The number of steps with data, after which the data repeats. 0 if the data
  /// never ends.
  virtual int64_t steps() const = 0;
  /// Returns a dense global array for each of Plan::inputs, valid until the
  /// next call. `step` is 1-based.
  virtual Expected<std::vector<const void *>> load(int64_t step) = 0;

  /// The number of samples that count; other samples only fill the step. -1 if
  /// all samples count.
  virtual int64_t samplesIn(int64_t /*step*/) const { return -1; }
  /// The input whose labels are ignored in samples that do not count, or "".
  virtual std::string ignoredInput() const { return ""; }
  /// Says how the data becomes inputs, in one line, or "".
  virtual std::string mapping() const { return ""; }
  /// Names the arrays in the files that no input reads.
  virtual std::vector<std::string> unread() const { return {}; }
  /// Returns the types in the files, by input, or nothing if there are none.
  virtual std::vector<DType> storedTypes() const { return {}; }
  /// Reads the values of all data once (scanRows()). Fails at an index that its
  /// input does not accept. Without data, there are no facts.
  virtual Expected<DataFacts> scan(const ScanLimits & /*limits*/ = {}) const {
    return DataFacts();
  }
  /// Returns the first of the steps `first` to `last` in which one input has
  /// only ignored labels, or 0. `facts` come from scan().
  virtual int64_t ignoredStep(const DataFacts & /*facts*/, int64_t /*first*/,
                              int64_t /*last*/) {
    return 0;
  }
  virtual int64_t lastStepOf(int64_t epochs) const { return epochs * steps(); }
  /// Returns a hash of values spread over the data, which tells most other data
  /// apart, or "" if there is no data. Takes at most about a second.
  virtual std::string contentHash() const { return ""; }
  virtual DataPosition positionAfter(int64_t /*step*/) const { return {}; }
  /// Called before the first load() if the run resumes with `step`.
  virtual Status resumeAt(int64_t step, const DataPosition &position);
};

/// Opens npyFile(dir, input) for each input. With `perStep`, an array is
/// [steps, global shape]; otherwise it has the global shape.
Expected<std::unique_ptr<InputSource>>
openNpyInputs(const Plan &plan, const std::string &dir, bool perStep = true);

/// Fills `tensor` with the stream's numbers that `port` accepts.
void fillInput(HostTensor &tensor, const RandomStream &stream,
               const Port &port);

/// Says that the model does not read an input. With `hasTwin`, the model reads
/// another input of the same type, which may have replaced this one.
std::string unreadText(const std::string &input, bool hasTwin);
/// Returns unreadText() of each such input.
std::vector<std::string> unreadTexts(const Plan &plan);

std::unique_ptr<InputSource> randomInputs(const Plan &plan, uint64_t seed);

/// `steps` has arrays by step and by the name of the input.
Expected<std::unique_ptr<InputSource>>
fixedInputs(const Plan &plan,
            std::vector<std::map<std::string, HostTensor>> steps);

} // namespace dpc::rt
