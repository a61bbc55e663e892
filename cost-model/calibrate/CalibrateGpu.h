//===- CalibrateGpu.h - A device file for a measured GPU --------*- C++ -*-===//
#pragma once

#include "cost-model/machine/ComputeCost.h"

#include <string>
#include <vector>

namespace dpc::cost {

struct MeasuredGemm {
  DType type = DType::BF16;
  GemmShape shape;
  double seconds = 0;
};

struct MeasuredBytes {
  double bytes = 0, seconds = 0;
};

struct GpuMeasurements {
  std::string name, libraries; ///< "NVIDIA H200", "cuBLASLt 130000"
  double memoryBytes = 0, reservedBytes = 0;
  int64_t multiprocessors = 0;
  double launchSeconds = 0;
  std::vector<MeasuredGemm> gemms;
  std::vector<MeasuredBytes> streams, toDevice, fromDevice;
};

/// Parses `text`, the measurements that rt::measureDevice wrote. Errors name
/// `file`, the JSON path and the expected value.
Expected<GpuMeasurements> parseGpuMeasurements(const std::string &text,
                                               const std::string &file);

/// Returns the name of the device file that matches the name, memory and
/// multiprocessors of this GPU, or "" if there is none.
std::string knownGpu(const GpuMeasurements &measured);

struct GpuCalibration {
  std::string device, table;
};

/// Fits a device file to the measurements. Peaks and constants without a
/// measurement come from the device file that `knownGpu` names. For an unknown
/// GPU, the rates of its fastest GEMMs count as its peaks, and the measured
/// memory bandwidth replaces the datasheet's. The peak fraction, operand cost,
/// ramp, half k and misaligned fraction of ComputeCost.h are fitted to all bf16
/// GEMMs or, without any, to the GEMMs of the most frequent type. A pattern
/// search (Hooke and Jeeves, J. ACM 8, 1961) over the logarithms of the
/// constants minimizes the mean square of ln(predicted / measured time).
Expected<GpuCalibration> calibrateGpu(const GpuMeasurements &measured);

} // namespace dpc::cost
