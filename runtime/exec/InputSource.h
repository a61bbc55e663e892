//===- InputSource.h - where a step's inputs come from ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_INPUTSOURCE_H
#define DPC_RUNTIME_EXEC_INPUTSOURCE_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>

namespace dpc::rt {

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
};

/// DIR/NAME.npy for every input, `[steps, ...global shape]`; a "/" in a name
/// is "_" in the file's. With `perStep` false the first extent is absent.
Expected<std::unique_ptr<InputSource>>
openNpyInputs(const Plan &plan, const std::string &dir, bool perStep = true);

/// Token ids: raw uint16 (uint32 when the plan's vocabulary needs it), or with
/// the headers of llm.c. The plan has one integer input [batch, length], the
/// tokens, and perhaps a second one, which gets them shifted by one (labels).
Expected<std::unique_ptr<InputSource>> openTokenFile(const Plan &plan,
                                                     const std::string &path);

/// Random data (Random.h), different in each step.
std::unique_ptr<InputSource> randomInputs(const Plan &plan, uint64_t seed);

/// The same arrays by name for each step; all inputs must be there.
Expected<std::unique_ptr<InputSource>>
fixedInputs(const Plan &plan,
            std::vector<std::map<std::string, HostTensor>> steps);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_INPUTSOURCE_H
