//===- DeviceRuns.h - runs of plans on the fake runtime ---------*- C++ -*-===//
#pragma once

#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/exec/Session.h"

namespace dpc::rt::test {

CudaApis fakeApis(bool graphs = true);

/// Returns four steps on two batches for the plans in TestPlans.h. Sums are not
/// exact, so that their order matters.
RunRequest request(int64_t rows);

enum class Ranks { InProcess, Nccl };

struct DeviceResult {
  std::vector<std::vector<HostTensor>> outputs; ///< by step
  std::map<std::string, HostTensor> tensors;
  std::string traceEvents; ///< events of rank 0's process; "" without a trace
};

/// Runs the steps of `asked` with its tensors. `afterStep` may be null.
Status runSteps(const Plan &plan, Session &session, const RunRequest &asked,
                const std::function<void()> &afterStep = nullptr);

/// These options do not change the results.
struct DeviceWishes {
  bool measuresGemms = false;
  std::string gemmCache = {};
  std::function<void(const std::string &)> remark = nullptr;
  bool trace = false;
  bool overlap = true;
  int device = 0;
};

/// Runs the plan on the fake and returns the results of rank 0.
Expected<DeviceResult> runOnDevice(const Plan &plan, Ranks ranks,
                                   const RunRequest &asked,
                                   const DeviceWishes &wishes,
                                   bool graphs = true);

} // namespace dpc::rt::test
