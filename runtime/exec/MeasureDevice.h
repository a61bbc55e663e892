//===- MeasureDevice.h - a table of measured times of a device --*- C++ -*-===//
#pragma once

#include "runtime/exec/DeviceProbe.h"

#include <functional>
#include <vector>

namespace dpc::rt {

struct DeviceSchedule {
  std::vector<GemmShape> gemms;
  std::vector<int64_t> streamBytes, copyBytes;
  int passes = 3; ///< the median of the passes counts
};

/// Returns the default measurements: GEMMs of transformer layers and square
/// GEMMs, from small sizes to sizes that fill any device. Most GEMMs are in
/// bf16; some have unaligned sizes. Takes at most a minute.
DeviceSchedule usualSchedule();

/// Runs the measurements and returns the text of a file for dpc-opt
/// --calibrate: JSON with `device_measurements` (version 1), `name`,
/// `libraries`, `memory_bytes`, `reserved_bytes`, `multiprocessors`,
/// `launch_seconds`, and the lists `products` (`type`, `m`, `n`, `k`,
/// `trans_a`, `trans_b`, `seconds`), `streams` (`bytes`, `seconds`) and
/// `host_copies` (`bytes`, `to_device`, `seconds`). Omits types that the GEMM
/// library does not support, and fails if any other measurement fails. Calls
/// `progress` before each pass.
Expected<std::string>
measureDevice(DeviceProbe &probe, const DeviceSchedule &schedule,
              const std::function<void(const std::string &)> &progress = {});

} // namespace dpc::rt
