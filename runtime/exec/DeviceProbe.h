//===- DeviceProbe.h - measurements of a device's speed ---------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"

#include <string>

namespace dpc::rt {

/// A GEMM of dense matrices of one type: [m, k] by [k, n].
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  DType type = DType::F32;
};

struct DeviceFacts {
  std::string name;
  std::string libraries; ///< GEMM library and version
  int64_t memoryBytes = 0;
  /// Memory in use by the driver and libraries before a plan runs.
  int64_t reservedBytes = 0;
  int64_t multiprocessors = 0;
};

/// Measures times on one device. Each function queues many operations, as in a
/// step, and returns the mean seconds per operation.
class DeviceProbe {
public:
  virtual ~DeviceProbe() = default;
  virtual const DeviceFacts &facts() const = 0;
  /// Measures the fastest routine of the GEMM library. The operands are not in
  /// a cache.
  virtual Expected<double> gemm(const GemmShape &shape) = 0;
  /// Measures a copy in device memory, which reads and writes `bytes` / 2 each.
  virtual Expected<double> stream(int64_t bytes) = 0;
  /// Measures a copy between pinned host memory and device memory.
  virtual Expected<double> hostCopy(int64_t bytes, bool toDevice) = 0;
  /// Measures an empty kernel, including the gap before the next kernel.
  virtual Expected<double> launch() = 0;
};

} // namespace dpc::rt
