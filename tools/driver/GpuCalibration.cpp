//===- GpuCalibration.cpp - Device files of GPUs --------------------------===//
#include "cost-model/calibrate/CalibrateGpu.h"
#include "runtime/base/ReadFile.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/MeasureDevice.h"
#include "tools/driver/Calibration.h"

#include "llvm/Support/raw_ostream.h"

#include <fstream>

namespace dpc {

/// Of this machine's first GPU.
static Expected<std::string> measureGpu() {
  auto device = rt::openCudaDevice();
  if (!device)
    return Status(device.status().code(),
                      "--device=cuda: " + device.status().message());
  auto probe = (*device)->probe(0);
  if (!probe)
    return probe.status();
  return rt::measureDevice(**probe, rt::usualSchedule());
}

std::string calibrateGpuTo(const std::string &device, const std::string &file) {
  std::string text, from = "what was measured";
  if (device == "cuda") {
    auto measured = measureGpu();
    if (!measured)
      return measured.status().message();
    text = *measured;
  } else {
    auto read = readTextFile(
        device, "cpu, cuda, or what dpc-run --measure-device wrote");
    if (!read)
      return "--device=" + read.message();
    text = *read;
    from = device;
  }
  auto measured = cost::parseGpuMeasurements(text, from);
  if (!measured)
    return measured.message();
  auto calibration = cost::calibrateGpu(*measured);
  if (!calibration)
    return calibration.message();
  llvm::outs() << calibration->table;
  std::ofstream out(file);
  out << calibration->device;
  out.close();
  return out ? "" : file + ": cannot be written";
}

} // namespace dpc
