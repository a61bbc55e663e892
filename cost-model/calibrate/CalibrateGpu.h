//===- CalibrateGpu.h - A device file for a measured GPU --------*- C++ -*-===//
#ifndef DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H
#define DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H

#include "cost-model/machine/ComputeCost.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// A GEMM and its measured seconds.
struct MeasuredProduct {
  DType type = DType::BF16;
  GemmShape shape;
  double seconds = 0;
};

/// A number of bytes, and the measured seconds to move them.
struct MeasuredBytes {
  double bytes = 0, seconds = 0;
};

/// The measurements of rt::measureDevice on a GPU.
struct GpuMeasurements {
  std::string name, libraries; ///< "NVIDIA H200", "cuBLASLt 130000"
  double memoryBytes = 0, reservedBytes = 0;
  int64_t multiprocessors = 0;
  double launchSeconds = 0;
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredBytes> streams, toDevice, fromDevice;
};

/// Reads a file of rt::measureDevice. Errors name `file`, the JSON path and the
/// expected value.
Expected<GpuMeasurements> parseGpuMeasurements(const std::string &text,
                                               const std::string &file);

/// The name of this GPU's device file, found by its name, memory and
/// multiprocessors; "" if there is none.
std::string knownGpu(const GpuMeasurements &measured);

/// The text of a device file, and the same values as a readable table.
struct GpuCalibration {
  std::string device, table;
};

/// Fits a device file to the measurements. Peaks and constants without a
/// measurement come from the device file that `knownGpu` names. For an unknown
/// GPU, the rates of its fastest GEMMs count as its peaks, and the measured
/// bandwidth as its bandwidth.
///
/// The peak fraction, operand cost, ramp, half k and misaligned fraction of
/// ComputeCost.h are fitted to all bf16 GEMMs, or, without any, to the GEMMs of
/// the most frequent type. A pattern search (Hooke and Jeeves, J. ACM 8, 1961)
/// in the logarithms of the constants minimizes the mean square of the
/// logarithm of predicted over measured time. Launch and bandwidth are measured
/// directly.
Expected<GpuCalibration> calibrateGpu(const GpuMeasurements &measured);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H
