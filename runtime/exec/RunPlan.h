//===- RunPlan.h - running a plan in this process ---------------*- C++ -*-===//
//
// This interface checks plans: all ranks are threads, and values go in and out
// by name.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_EXEC_RUNPLAN_H
#define DPC_RUNTIME_EXEC_RUNPLAN_H

#include "runtime/io/InitialValues.h"
#include "runtime/kernels/KernelLibrary.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::rt {

struct RunRequest {
  int64_t steps = 1;
  /// Values of parameters, buffers and states by name (global, dense). Other
  /// tensors come from their sources or from `init`.
  std::map<std::string, HostTensor> tensors;
  InitChoice init;
  /// Global inputs by name, one map per step. When there are fewer maps than
  /// steps, they repeat. Empty: random data.
  std::vector<std::map<std::string, HostTensor>> inputs;
  double timeoutSeconds = 60;
  bool poison = false; ///< padding and fresh memory hold NaN
};

struct RunResult {
  /// Global outputs by name, one map per step.
  std::vector<std::map<std::string, HostTensor>> outputs;
  /// Every tensor of the plan after the last step, global.
  std::map<std::string, HostTensor> tensors;
};

/// Validates `plan`, loads its kernels from DIR/kernels and runs it with local
/// communicators.
Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            RunRequest request);
/// The same with loaded kernels; `dir` is the folder of the sources.
Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            const KernelLibrary &kernels, RunRequest request);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_RUNPLAN_H
