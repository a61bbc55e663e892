//===- InputSource.h - the inputs of steps ----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_INPUTSOURCE_H
#define DPC_RUNTIME_IO_INPUTSOURCE_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>

namespace dpc::rt {

/// The position of a run in its data.
struct DataPosition {
  int64_t epoch = 0;    ///< 0-based
  int64_t position = 0; ///< index of the next sample in the order of the epoch
  int64_t samples = 0;  ///< samples per epoch; 0: the data consists of steps
  std::string order;    ///< "as they lie", "shuffled by seed 7"
};

/// The global arrays of a plan's inputs, step by step.
class InputSource {
public:
  virtual ~InputSource() = default;

  /// The number of steps that have data; later steps repeat the data. 0: the
  /// data never ends.
  virtual int64_t steps() const = 0;
  /// The dense arrays of a step (1-based), one for each of Plan::inputs. The
  /// arrays are valid until the next call.
  virtual Expected<std::vector<const void *>> load(int64_t step) = 0;

  /// How many samples of a step count; the remaining samples only fill the
  /// step. -1: all samples count.
  virtual int64_t samplesIn(int64_t /*step*/) const { return -1; }
  /// The input whose labels the loss ignores in the samples that do not count;
  /// "": none.
  virtual std::string ignoredInput() const { return ""; }
  /// The last step of `epochs` epochs.
  virtual int64_t lastStepOf(int64_t epochs) const { return epochs * steps(); }
  /// The position in the data after a step.
  virtual DataPosition positionAfter(int64_t /*step*/) const { return {}; }
  /// Called before the first load if the run resumes with `step` at `position`.
  virtual Status resumeAt(int64_t step, const DataPosition &position);
};

/// Opens npyFile(DIR, input) for each input. With `perStep`, the arrays are
/// [steps, global shape..]; otherwise they have the global shape.
Expected<std::unique_ptr<InputSource>>
openNpyInputs(const Plan &plan, const std::string &dir, bool perStep = true);

/// Random data, different in each step.
std::unique_ptr<InputSource> randomInputs(const Plan &plan, uint64_t seed);

/// The given arrays of all inputs, by step and name.
Expected<std::unique_ptr<InputSource>>
fixedInputs(const Plan &plan,
            std::vector<std::map<std::string, HostTensor>> steps);

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_INPUTSOURCE_H
