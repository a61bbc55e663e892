//===- Calibration.h - Measures this machine --------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_CALIBRATION_H
#define DPC_TOOLS_DRIVER_CALIBRATION_H

#include <string>
#include <vector>

namespace dpc {

/// Measures matrix products, memory bandwidth, elementwise kernels, kernel
/// launch and the exchange between two threads, and writes them to `file` as a
/// device file for `local:N`. Prints a table, takes a minute; warns on stderr
/// where other work had a tenth of the cores meanwhile. Returns "" or a
/// one-line error.
std::string calibrateMachine(const std::string &file);

/// Writes a device file of this machine's GPU (`device` is "cuda"), or of the
/// one that the file `device` of dpc-run --measure-device is of, to `file`.
/// Prints a table. Returns "" or a one-line error.
std::string calibrateGpuTo(const std::string &device, const std::string &file);

/// Writes `cluster`, a cluster.json, to `file` with the levels that `links`
/// measured (LinkMeasurements.h), and prints what has changed. Returns "" or a
/// one-line error.
std::string calibrateLinks(const std::string &cluster,
                           const std::vector<std::string> &links,
                           const std::string &file);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_CALIBRATION_H
