//===- InputSource.h - where a step's inputs come from ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_INPUTSOURCE_H
#define DPC_RUNTIME_IO_INPUTSOURCE_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>

namespace dpc::rt {

/// How far a run has come in its data.
struct DataPosition {
  int64_t epoch = 0;    ///< 0-based
  int64_t position = 0; ///< in its order: that of the next sample
  int64_t samples = 0;  ///< of an epoch; 0: the data has no samples, but steps
  std::string order;    ///< "as they lie", "shuffled by seed 7"
};

/// Gives the global arrays of a plan's inputs, step by step.
class InputSource {
public:
  virtual ~InputSource() = default;

  /// Steps it has data for; later ones start again from the first. 0: any
  /// number.
  virtual int64_t steps() const = 0;
  /// Dense arrays of step `step` (1-based), one for each of Plan::inputs,
  /// valid until the next call.
  virtual Expected<std::vector<const void *>> load(int64_t step) = 0;

  /// How many of a step's samples count; the others, at its end, only fill it
  /// up. -1: all.
  virtual int64_t samplesIn(int64_t /*step*/) const { return -1; }
  /// The input whose labels are ignored in those others; "": none.
  virtual std::string ignoredInput() const { return ""; }
  /// The step that ends `epochs` times all of the data.
  virtual int64_t lastStepOf(int64_t epochs) const { return epochs * steps(); }
  /// Where the data stands after a step, for a checkpoint.
  virtual DataPosition positionAfter(int64_t /*step*/) const { return {}; }
  /// Before the first load: the run goes on at `step`, after another one that
  /// came as far as `position`.
  virtual Status goOn(int64_t step, const DataPosition &position);
};

/// DIR/NAME.npy for every input, `[steps, ...global shape]`; a "/" in a name
/// is "_" in the file's. With `perStep` false the first extent is absent.
Expected<std::unique_ptr<InputSource>>
openNpyInputs(const Plan &plan, const std::string &dir, bool perStep = true);

/// Random data (Random.h), different in each step.
std::unique_ptr<InputSource> randomInputs(const Plan &plan, uint64_t seed);

/// The same arrays by name for each step; all inputs must be there.
Expected<std::unique_ptr<InputSource>>
fixedInputs(const Plan &plan,
            std::vector<std::map<std::string, HostTensor>> steps);

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_INPUTSOURCE_H
