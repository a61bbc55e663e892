//===- GpuCalibration.cpp - Device files of GPUs --------------------------===//
#include "cost-model/CalibrateGpu.h"
#include "cost-model/TextFile.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/MeasureDevice.h"
#include "tools/dpc-opt/Calibration.h"

#include "llvm/Support/raw_ostream.h"

#include <fstream>

namespace dpc {

/// Of this machine's first GPU.
static rt::Expected<std::string> measureGpu() {
  auto device = rt::openCudaDevice();
  if (!device)
    return rt::Status(device.status().code(),
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
    auto read = cost::readTextFile(
        device, "cpu, cuda, or what dpc-run --measure-device wrote");
    if (!read)
      return "--device=" + read.error();
    text = *read;
    from = device;
  }
  auto measured = cost::parseGpuMeasurements(text, from);
  if (!measured)
    return measured.error();
  auto calibration = cost::calibrateGpu(*measured);
  if (!calibration)
    return calibration.error();
  llvm::outs() << calibration->table;
  std::ofstream out(file);
  out << calibration->device;
  out.close();
  return out ? "" : file + ": cannot be written";
}

} // namespace dpc
