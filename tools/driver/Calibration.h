//===- Calibration.h - Measures this machine --------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_CALIBRATION_H
#define DPC_TOOLS_DRIVER_CALIBRATION_H

#include "tools/driver/Session.h"

namespace dpc {

/// Writes what `options` ask to measure to `options.calibrate`, and prints a
/// table of it:
///
///   * without --links and --device, or with --device=cpu: a device file for
///     `local:N`, from matrix products, memory bandwidth, elementwise kernels,
///     kernel launch and the exchange between two threads of this machine. It
///     takes a minute; a warning says where other work had a tenth of the cores
///     meanwhile.
///   * with --device=cuda: a device file of this machine's GPU; with
///     --device=FILE, of the GPU that dpc-run --measure-device wrote FILE of.
///   * with --links: `options.cluster`, a cluster.json, with the levels that
///     these measured (LinkMeasurements.h).
///
/// Returns "" or a one-line error.
std::string calibrate(const CompileOptions &options, Reporter &reporter);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_CALIBRATION_H
