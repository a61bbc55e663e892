//===- Calibrate.h - Device constants from measurements ---------*- C++ -*-===//
//
// The cost model measures nothing itself: a probe supplied by the caller runs
// kernels on this machine, and the constants of a device file are fitted to
// what it reports.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_CALIBRATE_CALIBRATE_H
#define DPC_COST_MODEL_CALIBRATE_CALIBRATE_H

#include "cost-model/machine/ComputeCost.h"

#include <functional>

namespace dpc::cost {

/// How to measure this machine with all cores at work, as they are when ranks
/// fill it, and what one rank alone has of it. Every function returns seconds
/// of one run, or a value <= 0 on failure. All are asked for everything several
/// times, in turn, so that a disturbance that lasts meets each of them once;
/// the least counts.
struct CalibrationProbe {
  /// Until every core has multiplied f32 matrices of this shape, each its own.
  std::function<double(const GemmShape &)> gemm;
  /// Until all cores have made one such product together; may be empty.
  std::function<double(const GemmShape &)> sharedGemm;
  /// Until all cores together have read and written `bytes`.
  std::function<double(double bytes)> stream;
  /// Until one core has, the others idle; may be empty.
  std::function<double(double bytes)> coreStream;
  /// Until every core has done `scalarOperations` (CostOpInterface) in kernels
  /// that compute far more than they move; may be empty.
  std::function<double()> scalars;
  double scalarOperations = 0;
  std::function<double()> launch; ///< An empty kernel call.
  /// all_reduce of two ranks with `bytes` each; may be empty.
  std::function<double(double bytes)> allReduce;
  std::string machine;    ///< For the sources: CPU name, date, compiler.
  double memoryBytes = 0; ///< Of the machine.
  int64_t cores = 1;
};

/// Runs the probe and returns the text of a device file for `cpu-local`, which
/// loadDevice and makeLocalCluster read back. Fails when a probe does.
Expected<std::string> calibrateDevice(const CalibrationProbe &probe);

/// A table for people of what calibrateDevice has written: rates of square
/// products and of memory, launches, what two ranks exchange. Fails where
/// `text` is no device file.
Expected<std::string> describeCalibration(const std::string &text);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_CALIBRATE_H
