#include "runtime/base/Status.h"
#include "runtime/plan/PlanChecks.h"

#include <cstdlib>

namespace dpc::rt {

namespace {

/// Returns 90 for "sm_90", or 0 if `text` is not an architecture.
int architectureOf(const std::string &text) {
  bool isName = text.rfind("sm_", 0) == 0 && text.size() >= 5 &&
                text.size() <= 6 &&
                text.find_first_not_of("0123456789", 3) == std::string::npos;
  return isName ? std::atoi(text.c_str() + 3) : 0;
}

/// Returns the maximum shared memory of a block in bytes.
int64_t sharedLimit(int architecture) {
  switch (architecture) {
  case 80:
  case 87:
    return 163 * 1024;
  case 90:
  case 100:
  case 103:
    return 227 * 1024;
  default:
    return 99 * 1024;
  }
}

Status inRange(const char *what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return Status::success();
  return Status::invalid(what, " is ", value, ", expected ", low, " to ", high);
}

Status checkLaunch(const KernelLaunch &launch, int architecture) {
  DPC_TRY(inRange("blocks", launch.blocks, 1, (int64_t(1) << 31) - 1));
  DPC_TRY(inRange("threads", launch.threads, 1, 1024));
  return inRange("shared_bytes", launch.sharedBytes, 0,
                 sharedLimit(architecture));
}

} // namespace

Status checkLaunches(const Plan &plan) {
  if (plan.targetGpu.empty())
    return plan.kernelLaunches.empty()
               ? Status::success()
               : Status::invalid("kernel_launches is not empty, but the plan "
                                 "has no target_gpu");
  int architecture = architectureOf(plan.targetGpu);
  if (architecture < 80)
    return Status::invalid("target_gpu is \"", plan.targetGpu,
                           "\", expected sm_80 or later");
  const std::string &file = plan.kernelFile;
  bool isPtx = file.size() > 4 && file.substr(file.size() - 4) == ".ptx";
  if (!file.empty() && !isPtx)
    return Status::invalid("kernel_file is \"", file,
                           "\", expected a .ptx file");
  for (const auto &[symbol, launch] : plan.kernelLaunches) {
    Status status = checkLaunch(launch, architecture);
    if (!status.ok())
      return status.in("kernel_launches." + symbol);
  }
  return Status::success();
}

} // namespace dpc::rt
