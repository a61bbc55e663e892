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
  int64_t position = 0; ///< of the next sample in the epoch's order
  int64_t samples = 0;  ///< in an epoch; 0: the data consists of steps, not
                        ///< samples
  std::string order;    ///< "as they lie", "shuffled by seed 7"
};

/// Gives the global arrays of a plan's inputs, step by step.
class InputSource {
public:
  virtual ~InputSource() = default;

  /// The number of steps that it has data for; later steps start again from the
  /// first. 0: any number.
  virtual int64_t steps() const = 0;
  /// Dense arrays of step `step` (1-based), one for each of Plan::inputs,
  /// valid until the next call.
  virtual Expected<std::vector<const void *>> load(int64_t step) = 0;

  /// How many samples of a step count. The samples after them only fill the
  /// step. -1: all.
  virtual int64_t samplesIn(int64_t /*step*/) const { return -1; }
  /// The input whose labels are ignored in the remaining samples; "": none.
  virtual std::string ignoredInput() const { return ""; }
  /// The last step of `epochs` passes over the data.
  virtual int64_t lastStepOf(int64_t epochs) const { return epochs * steps(); }
  /// The position in the data after a step, for a checkpoint.
  virtual DataPosition positionAfter(int64_t /*step*/) const { return {}; }
  /// Called before the first load when the run continues at `step`, after a run
  /// that reached `position`.
  virtual Status resumeAt(int64_t step, const DataPosition &position);
};

/// Opens DIR/NAME.npy for every input, `[steps, ...global shape]`; a "/" in a
/// name is "_" in the file name. With `perStep` false the first extent is
/// absent.
Expected<std::unique_ptr<InputSource>>
openNpyInputs(const Plan &plan, const std::string &dir, bool perStep = true);

/// Random data (Random.h), different in each step.
std::unique_ptr<InputSource> randomInputs(const Plan &plan, uint64_t seed);

/// The same arrays, given by name, for each step; all inputs must be present.
Expected<std::unique_ptr<InputSource>>
fixedInputs(const Plan &plan,
            std::vector<std::map<std::string, HostTensor>> steps);

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_INPUTSOURCE_H
