//===- Calibrate.h - Device constants from measurements ---------*- C++ -*-===//
#pragma once

#include "cost-model/machine/ComputeCost.h"

#include <functional>

namespace dpc::cost {

/// Functions that measure kernels on this machine. Each function returns the
/// seconds of one run, or a value <= 0 on failure. The calibration calls every
/// function once per round and uses the shortest time of several rounds, so
/// that a long disturbance spoils only one measurement of each kernel.
struct CalibrationProbe {
  /// Each core runs its own f32 GEMM of this shape.
  std::function<double(const GemmShape &)> gemm;
  /// All cores together run one f32 GEMM of this shape; may be empty.
  std::function<double(const GemmShape &)> sharedGemm;
  /// All cores together read and write `bytes`.
  std::function<double(double bytes)> stream;
  /// One core reads and writes `bytes`; the other cores are idle. May be empty.
  std::function<double(double bytes)> coreStream;
  /// Every core runs `scalarOperations` operations (as CostOpInterface counts
  /// them) in compute-bound kernels; may be empty.
  std::function<double()> scalars;
  double scalarOperations = 0;
  std::function<double()> launch; ///< Runs an empty kernel.
  /// Two ranks run an all_reduce of `bytes`; may be empty.
  std::function<double(double bytes)> allReduce;
  std::string machine; ///< CPU, date and compiler, as a "source".
  double memoryBytes = 0;
  int64_t cores = 1;
};

/// Runs the probe and returns the text of a device file for `cpu-local`. Fails
/// if a function of the probe fails.
Expected<std::string> calibrateDevice(const CalibrationProbe &probe);

/// Formats the constants in `text`, a result of calibrateDevice, as a table:
/// the rates of square GEMMs and of memory, the launch time, and the bandwidth
/// and latency between two ranks. Fails if `text` is not a device file.
Expected<std::string> describeCalibration(const std::string &text);

/// Formats a line of the table of describeCalibration: "  memory    21.3 GB/s".
std::string calibrationLine(const std::string &what, double value,
                            const std::string &unit);

} // namespace dpc::cost
