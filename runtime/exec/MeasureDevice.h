//===- MeasureDevice.h - a table of measured times of a device --*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_MEASUREDEVICE_H
#define DPC_RUNTIME_EXEC_MEASUREDEVICE_H

#include "runtime/exec/DeviceProbe.h"

#include <functional>
#include <vector>

namespace dpc::rt {

/// The measurements and their order.
struct DeviceSchedule {
  std::vector<ProductShape> products;
  std::vector<int64_t> streamBytes, copyBytes;
  int passes = 3; ///< over all measurements; the median of each counts
};

/// The default measurements: GEMMs of transformer layers and square GEMMs, from
/// small sizes to sizes that fill any device. Most are in bf16, and some have
/// unaligned sizes. All measurements together take at most a minute.
DeviceSchedule usualSchedule();

/// Runs the measurements and returns the text of a file for dpc-opt
/// --calibrate: JSON with `device_measurements` (version 1), `name`,
/// `libraries`, `memory_bytes`, `reserved_bytes`, `multiprocessors`,
/// `launch_seconds`, and the lists `products` (`type`, `m`, `n`, `k`,
/// `trans_a`, `trans_b`, `seconds`), `streams` (`bytes`, `seconds`) and
/// `host_copies` (`bytes`, `to_device`, `seconds`). Fails if a measurement
/// fails. Skips types that the device's library does not support. Calls
/// `progress` before each pass.
Expected<std::string>
measureDevice(DeviceProbe &probe, const DeviceSchedule &schedule,
              const std::function<void(const std::string &)> &progress = {});

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_MEASUREDEVICE_H
