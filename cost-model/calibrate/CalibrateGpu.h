//===- CalibrateGpu.h - A device file of a measured GPU ---------*- C++ -*-===//
#ifndef DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H
#define DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H

#include "cost-model/machine/ComputeCost.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// One product and how long it took.
struct MeasuredProduct {
  DType type = DType::BF16;
  GemmShape shape;
  double seconds = 0;
};

/// So many bytes and how long they took.
struct MeasuredBytes {
  double bytes = 0, seconds = 0;
};

/// What rt::measureDevice found on a GPU.
struct GpuMeasurements {
  std::string name, libraries; ///< "NVIDIA H200", "cuBLASLt 130000"
  double memoryBytes = 0, reservedBytes = 0;
  int64_t multiprocessors = 0;
  double launchSeconds = 0;
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredBytes> streams, toDevice, fromDevice;
};

/// Reads the file that measureDevice describes. Errors name `file`, the place
/// in it, and what is expected there.
Expected<GpuMeasurements> parseGpuMeasurements(const std::string &text,
                                             const std::string &file);

/// The device file of this GPU by its name, memory and multiprocessors; ""
/// where dpc has none.
std::string knownGpu(const GpuMeasurements &measured);

/// A device file, and a table of it for people.
struct GpuCalibration {
  std::string device, table;
};

/// The constants of a device file that fit the measurements best. Peaks, and
/// what was not measured, are those of the datasheet (`knownGpu`); of an
/// unknown GPU the fastest product is the peak of its type, and the memory's
/// bandwidth is what was reached.
///
/// Of the formula of ComputeCost.h the peak fraction, operand cost, ramp, half
/// k and the fraction of unaligned products are fitted to all bf16 products
/// (where there are none, to those of the type with most): the least mean
/// square of the logarithm of predicted by measured time, by a pattern search
/// (Hooke and Jeeves, J. ACM 8, 1961) in the logarithms of the constants. The
/// launch and the bandwidth are measured by themselves.
Expected<GpuCalibration> calibrateGpu(const GpuMeasurements &measured);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_CALIBRATEGPU_H
