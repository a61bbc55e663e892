#include "tools/driver/Fp8Checks.h"

#include "cost-model/machine/Fp8GemmRates.h"
#include "runtime/plan/PlanFp8.h"

#include <algorithm>

namespace dpc {

// Whoever prices products of fp8 and whoever runs them mean the same.
constexpr int64_t kStep = rt::kFp8Multiple;
static_assert(cost::takesFp8(kStep, kStep, kStep) &&
              !cost::takesFp8(kStep / 2, kStep, kStep) &&
              !cost::takesFp8(kStep, kStep / 2, kStep) &&
              !cost::takesFp8(kStep, kStep, kStep / 2));
static_assert(cost::fp8WorkspaceBytes(16, 48, 80) ==
              rt::fp8WorkspaceBytes(16, 48, 80));

std::string whyNoFp8(const CompileOptions &options,
                     const cost::Cluster &cluster) {
  if (options.precision != "fp8")
    return "";
  // "sm_90" or "sm_90a": checked when options were read.
  if (options.targetGpu.size() > 3 &&
      std::strtol(options.targetGpu.c_str() + 3, nullptr, 10) <
          rt::kFirstWithFp8)
    return "--precision=fp8: " + options.targetGpu +
           " has no products of fp8; sm_" + std::to_string(rt::kFirstWithFp8) +
           " and later are accepted, and --precision=bf16 here";
  for (const cost::NodeGroup &group : cluster.groups) {
    const cost::Device &device = group.device;
    bool isGpu =
        device.peak(cost::DType::F16) > 0 || device.peak(cost::DType::BF16) > 0;
    if (isGpu && device.peak(cost::DType::FP8) == 0)
      return "--precision=fp8: device " + device.name +
             " has no products of fp8; --precision=bf16 is accepted here, and "
             "fp8 on devices with a peak of it, such as h100-sxm-80gb";
  }
  return "";
}

std::string remarkOnFp8(const CompileOptions &options, bool hasFp8) {
  if (options.precision != "fp8" || hasFp8)
    return "";
  return "--precision=fp8: no product of this plan is one, all are of bf16: "
         "fp8 takes those of a linear layer but the last, whose sizes on a "
         "rank are multiples of 16";
}

} // namespace dpc
