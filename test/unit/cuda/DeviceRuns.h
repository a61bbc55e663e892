//===- DeviceRuns.h - runs of plans on the fake runtime ---------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_DEVICERUNS_H
#define DPC_TEST_UNIT_CUDA_DEVICERUNS_H

#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/exec/Session.h"

namespace dpc::rt::test {

/// The fake libraries of a device.
CudaApis fakeApis(bool graphs = true);

/// Four steps on two batches of the plans in TestPlans.h, with values that
/// round.
RunRequest request(int64_t rows);

/// All ranks in one process, or one process per rank.
enum class Ranks { InProcess, Nccl };

struct DeviceResult {
  std::vector<std::vector<HostTensor>> outputs; ///< by step
  std::map<std::string, HostTensor> tensors;
  std::string traceEvents; ///< of the process of rank 0, if traced
};

/// Sets the tensors and runs the steps of `asked`; `afterStep` may be empty.
Status runSteps(const Plan &plan, Session &session, const RunRequest &asked,
                const std::function<void()> &afterStep = nullptr);

/// Settings that do not change the results.
struct DeviceWishes {
  bool measuresGemms = false;
  std::string gemmCache = {};
  std::function<void(const std::string &)> remark = nullptr;
  bool trace = false;
  bool overlap = true;
  int device = 0;
};

/// Returns the result of rank 0. With `graphs`, steps may be captured.
Expected<DeviceResult> runOnDevice(const Plan &plan, Ranks ranks,
                                   const RunRequest &asked,
                                   const DeviceWishes &wishes,
                                   bool graphs = true);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_DEVICERUNS_H
