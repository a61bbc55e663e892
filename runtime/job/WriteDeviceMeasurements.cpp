//===- WriteDeviceMeasurements.cpp - dpc-run --measure-device -------------===//
#include "runtime/job/WriteDeviceMeasurements.h"

#include "runtime/exec/Device.h"
#include "runtime/exec/Launch.h"
#include "runtime/exec/MeasureDevice.h"
#include "runtime/job/Writable.h"

#include <cstdio>
#include <fstream>

namespace dpc {

using namespace rt;

Status measureDevice(const RunOptions &options) {
  if (options.device != "cuda")
    return Status::invalid("--measure-device measures a GPU: give "
                           "--device=cuda; dpc-opt --calibrate measures this "
                           "machine's CPUs");
  DPC_TRY(checkWritable("--measure-device", options.measureDevice));
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
  std::ofstream out(options.measureDevice);
  out << text;
  out.close();
  if (!out)
    return Status::io("--measure-device: ", options.measureDevice,
                      " cannot be written");
  std::printf("wrote %s\n", options.measureDevice.c_str());
  return Status::success();
}

} // namespace dpc
