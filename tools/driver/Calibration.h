//===- Calibration.h - Measures this machine --------------------*- C++ -*-===//
#pragma once

#include "tools/driver/Session.h"

namespace dpc {

/// Measures a part of the machine, writes the result to `options.calibrate`,
/// and prints a table:
///
/// * Without --links and --device, or with --device=cpu: a device file for
///   `local:N`, from GEMMs, memory bandwidth, elementwise kernels, kernel
///   launches and messages between two threads. This takes a minute. A warning
///   appears if other processes used a tenth of the cores.
/// * With --device=cuda: a device file for this machine's GPU. With
///   --device=FILE: a device file for the GPU that dpc-run --measure-device
///   measured.
/// * With --links: `options.cluster`, a cluster.json, with measured levels
///   (LinkMeasurements.h).
///
/// Returns "" or a one-line error.
std::string calibrate(const CompileOptions &options, Reporter &reporter);

} // namespace dpc
