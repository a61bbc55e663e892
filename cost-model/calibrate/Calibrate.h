//===- Calibrate.h - Device constants from measurements ---------*- C++ -*-===//
//
// The caller's probe runs kernels on this machine, and the calibration fits the
// constants of a device file to the measured times.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_CALIBRATE_CALIBRATE_H
#define DPC_COST_MODEL_CALIBRATE_CALIBRATE_H

#include "cost-model/machine/ComputeCost.h"

#include <functional>

namespace dpc::cost {

/// Measures kernels on this machine: most with all cores busy, as when every
/// core runs a rank, and some on one core. Every function returns the seconds
/// of one run, or a value <= 0 on failure. The calibration runs several rounds
/// and calls each function once per round, so that a long disturbance affects
/// each function only once; the shortest time counts.
struct CalibrationProbe {
  /// Each core runs its own f32 GEMM of this shape.
  std::function<double(const GemmShape &)> gemm;
  /// All cores together run one f32 GEMM of this shape; may be empty.
  std::function<double(const GemmShape &)> sharedGemm;
  /// All cores together read and write `bytes`.
  std::function<double(double bytes)> stream;
  /// One core reads and writes `bytes` while the others are idle; may be empty.
  std::function<double(double bytes)> coreStream;
  /// Every core runs `scalarOperations` operations (as CostOpInterface counts
  /// them) in compute-bound kernels; may be empty.
  std::function<double()> scalars;
  double scalarOperations = 0;
  std::function<double()> launch; ///< An empty kernel call.
  /// all_reduce of two ranks with `bytes` each; may be empty.
  std::function<double(double bytes)> allReduce;
  std::string machine; ///< CPU, date and compiler, for sources.
  double memoryBytes = 0;
  int64_t cores = 1;
};

/// Runs the probe and returns the text of a device file for `cpu-local`. Fails
/// if a function of the probe fails.
Expected<std::string> calibrateDevice(const CalibrationProbe &probe);

/// A readable table of the result of calibrateDevice: the rates of square GEMMs
/// and of memory, the launch time, the exchange between two ranks. Fails if
/// `text` is not a device file.
Expected<std::string> describeCalibration(const std::string &text);

/// A line of the table of describeCalibration: "  memory    21.3 GB/s".
std::string calibrationLine(const std::string &what, double value,
                            const std::string &unit);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_CALIBRATE_H
