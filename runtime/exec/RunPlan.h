//===- RunPlan.h - running a plan in this process ---------------*- C++ -*-===//
//
// Runs all ranks of a plan as threads, with named inputs and results, to check
// the plan.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/InitialValues.h"
#include "runtime/kernels/KernelLibrary.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::rt {

struct RunRequest {
  int64_t steps = 1;
  /// Global values by name. Tensors without a value here are filled from their
  /// sources or `init`.
  std::map<std::string, HostTensor> tensors;
  InitChoice init;
  /// Global inputs by name, for each step. If there are fewer entries than
  /// steps, the entries repeat; if there are none, inputs are random.
  std::vector<std::map<std::string, HostTensor>> inputs;
  double timeoutSeconds = 60;
  bool poison = false;
};

struct RunResult {
  /// Global outputs by name, for each step.
  std::vector<std::map<std::string, HostTensor>> outputs;
  /// Global values of all tensors after the last step.
  std::map<std::string, HostTensor> tensors;
};

/// Validates `plan`, loads its kernels from DIR/kernels, and runs it.
Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            RunRequest request);
/// Relative paths of sources begin in `dir`.
Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            const KernelLibrary &kernels, RunRequest request);

} // namespace dpc::rt
