//===- MeasureDevice.h - a table of what a device does ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_MEASUREDEVICE_H
#define DPC_RUNTIME_EXEC_MEASUREDEVICE_H

#include "runtime/exec/DeviceProbe.h"

#include <functional>
#include <vector>

namespace dpc::rt {

/// What is measured, in this order.
struct DeviceSchedule {
  std::vector<ProductShape> products;
  std::vector<int64_t> streamBytes, copyBytes;
  int passes = 3; ///< Of everything; the median counts.
};

/// Products of transformers' layers and of squares, aligned or not, most of
/// them in bf16, from small to those that fill any device; a minute or less.
DeviceSchedule usualSchedule();

/// Measures, and returns the text of a file for dpc-opt --calibrate: JSON with
/// `device_measurements` (version 1), `name`, `libraries`, `memory_bytes`,
/// `reserved_bytes`, `multiprocessors`, `launch_seconds`, and the lists
/// `products` (`type`, `m`, `n`, `k`, `trans_a`, `trans_b`, `seconds`),
/// `streams` (`bytes`, `seconds`) and `host_copies` (`bytes`, `to_device`,
/// `seconds`). Fails where a measurement does. Types that the device's library
/// has no routine for are left out. `progress` is told of each pass.
Expected<std::string>
measureDevice(DeviceProbe &probe, const DeviceSchedule &schedule,
              const std::function<void(const std::string &)> &progress = {});

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_MEASUREDEVICE_H
