//===- WriteDeviceMeasurements.cpp - dpc-run --measure-device -------------===//
#include "runtime/job/WriteDeviceMeasurements.h"

#include "runtime/base/WriteFile.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Launch.h"
#include "runtime/exec/MeasureDevice.h"

#include <cstdio>

namespace dpc {

using namespace rt;

Status measureDevice(const RunOptions &options) {
  if (options.device != "cuda")
    return Status::invalid("--measure-device measures a GPU: give "
                           "--device=cuda; dpc-opt --calibrate measures this "
                           "machine's CPUs");
  DPC_TRY(checkWritable(options.measureDevice).in("--measure-device"));
  DPC_ASSIGN(std::unique_ptr<Device> device,
             openCudaDevice().in("--device=cuda"));
  Launch launch = detectLaunch();
  DPC_ASSIGN(auto probe, device->probe(launch.size > 1 ? launch.localRank : 0));
  std::printf("measuring %s\n", probe->facts().name.c_str());
  DPC_ASSIGN(auto text, rt::measureDevice(*probe, usualSchedule(),
                                          [](const std::string &pass) {
                                            std::printf("  %s\n", pass.c_str());
                                            std::fflush(stdout);
                                          }));
  DPC_TRY(writeFile(options.measureDevice, text).in("--measure-device"));
  std::printf("wrote %s\n", options.measureDevice.c_str());
  return Status::success();
}

} // namespace dpc
