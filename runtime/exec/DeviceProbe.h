//===- DeviceProbe.h - measurements of a device's speed ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_DEVICEPROBE_H
#define DPC_RUNTIME_EXEC_DEVICEPROBE_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"

#include <string>

namespace dpc::rt {

/// C [m, n] = op(A) op(B) of dense matrices of one type.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  DType type = DType::F32;
};

struct DeviceFacts {
  std::string name;      ///< the driver's name of the device
  std::string libraries; ///< the GEMM library and its version
  int64_t memoryBytes = 0;
  /// Memory that the driver and libraries use before a plan allocates any.
  int64_t reservedBytes = 0;
  int64_t multiprocessors = 0;
};

/// Measures times on one device. Each function queues many operations, as a
/// step does, and returns the mean seconds per operation.
class DeviceProbe {
public:
  virtual ~DeviceProbe() = default;
  virtual const DeviceFacts &facts() const = 0;
  /// A GEMM by the library's fastest routine, as in a run. The operands are not
  /// in a cache.
  virtual Expected<double> product(const ProductShape &shape) = 0;
  /// A copy on the device. Half of the bytes are read and half are written.
  virtual Expected<double> stream(int64_t bytes) = 0;
  /// A copy between pinned host memory and device memory.
  virtual Expected<double> hostCopy(int64_t bytes, bool toDevice) = 0;
  /// The smallest kernel and the gap before the next kernel.
  virtual Expected<double> launch() = 0;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_DEVICEPROBE_H
