//===- DeviceRuns.h - runs of plans on the fake runtime ---------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_DEVICERUNS_H
#define DPC_TEST_UNIT_CUDA_DEVICERUNS_H

#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/exec/Session.h"

namespace dpc::rt::test {

/// Everything a device is reached through, of the fakes.
CudaApis fakeApis(bool graphs = true);

/// Four steps on two batches of the plans in TestPlans.h, with values that
/// round.
RunRequest request(int64_t rows);

/// The ranks of one process, or one each.
enum class Ranks { InProcess, Nccl };

struct DeviceResult {
  std::vector<std::vector<HostTensor>> outputs; ///< by step
  std::map<std::string, HostTensor> tensors;
  std::string traceEvents; ///< of rank 0's process, when it was traced
};

/// Sets the tensors and runs the steps of `asked`; `afterStep` may be empty.
Status runSteps(const Plan &plan, Session &session, const RunRequest &asked,
                const std::function<void()> &afterStep = nullptr);

/// How they run beside what they compute.
struct DeviceWishes {
  bool measuresGemms = false;
  std::string gemmCache = {};
  std::function<void(const std::string &)> remark = nullptr;
  bool trace = false;
  bool overlap = true;
  int device = 0;
};

/// Rank 0's result. `graphs`: steps may be captured.
Status runOnDevice(const Plan &plan, Ranks ranks, const RunRequest &asked,
                   const DeviceWishes &wishes, DeviceResult &result,
                   bool graphs = true);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_DEVICERUNS_H
