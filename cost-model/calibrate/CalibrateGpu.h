//===- CalibrateGpu.h - A device file for a measured GPU --------*- C++ -*-===//
#ifndef DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H
#define DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H

#include "cost-model/machine/ComputeCost.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// A GEMM and its seconds.
struct MeasuredProduct {
  DType type = DType::BF16;
  GemmShape shape;
  double seconds = 0;
};

/// A number of bytes and the seconds that they took.
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

/// Reads a file of measureDevice. Errors name `file`, the place in it, and the
/// expected value.
Expected<GpuMeasurements> parseGpuMeasurements(const std::string &text,
                                               const std::string &file);

/// The device file of this GPU by its name, memory and multiprocessors; ""
/// where dpc has none.
std::string knownGpu(const GpuMeasurements &measured);

/// A device file, and a readable table of it.
struct GpuCalibration {
  std::string device, table;
};

/// The constants of a device file that fit the measurements best. Peaks and
/// constants without a measurement are those of the datasheet (`knownGpu`). For
/// an unknown GPU the fastest GEMM gives the peak of its type, and the measured
/// bandwidth that of the memory.
///
/// The peak fraction, operand cost, ramp, half k and misaligned fraction of
/// ComputeCost.h are fitted to all bf16 GEMMs, or to those of the type with the
/// most. A pattern search (Hooke and Jeeves, J. ACM 8, 1961) in the logarithms
/// of the constants minimizes the mean square of the logarithm of predicted
/// over measured time. Launch and bandwidth have measurements of their own.
Expected<GpuCalibration> calibrateGpu(const GpuMeasurements &measured);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H
