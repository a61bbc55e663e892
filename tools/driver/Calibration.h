//===- Calibration.h - Measures this machine --------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_CALIBRATION_H
#define DPC_TOOLS_DRIVER_CALIBRATION_H

#include "tools/driver/Session.h"

namespace dpc {

/// Measures the part of the machine that `options` name, writes the result to
/// `options.calibrate`, and prints a table of it:
///
///   * without --links and --device, or with --device=cpu: a device file for
///     `local:N`, from GEMMs, memory bandwidth, elementwise kernels, kernel
///     launches and the exchange between two threads. This takes a minute; a
///     warning says if other processes used a tenth of the cores.
///   * with --device=cuda: a device file of this machine's GPU; with
///     --device=FILE, a device file of the GPU that dpc-run --measure-device
///     measured.
///   * with --links: `options.cluster`, a cluster.json, with measured levels
///     (LinkMeasurements.h).
///
/// Returns "" or a one-line error.
std::string calibrate(const CompileOptions &options, Reporter &reporter);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_CALIBRATION_H
