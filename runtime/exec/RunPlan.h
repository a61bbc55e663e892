//===- RunPlan.h - running a plan in this process ---------------*- C++ -*-===//
//
// Runs a plan in order to check it: all ranks are threads, and inputs and
// results have names.
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
  /// Global values of tensors by name. Other tensors come from their sources or
  /// `init`.
  std::map<std::string, HostTensor> tensors;
  InitChoice init;
  /// Global inputs by name, one map per step. If there are fewer maps than
  /// steps, the maps repeat. Empty: random data.
  std::vector<std::map<std::string, HostTensor>> inputs;
  double timeoutSeconds = 60;
  bool poison = false; ///< fill padding and fresh memory with NaN
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
/// Runs `plan` with kernels that are already loaded; relative paths of sources
/// begin in `dir`.
Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            const KernelLibrary &kernels, RunRequest request);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_RUNPLAN_H
