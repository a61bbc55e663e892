//===- DeviceProbe.h - how fast a device is ---------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_DEVICEPROBE_H
#define DPC_RUNTIME_EXEC_DEVICEPROBE_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"

#include <string>

namespace dpc::rt {

/// C [m, n] = op(A) op(B) of dense matrices, all of one type.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  DType type = DType::F32;
};

struct DeviceFacts {
  std::string name;      ///< as the driver says it
  std::string libraries; ///< what computes products, and its version
  int64_t memoryBytes = 0;
  /// Of these, what is taken while nothing of a plan is there: the driver's
  /// context, workspaces of libraries.
  int64_t reservedBytes = 0;
  int64_t multiprocessors = 0;
};

/// Times on one device. Every function returns seconds of one call among many
/// that stand in one queue, as in a step.
class DeviceProbe {
public:
  virtual ~DeviceProbe() = default;
  virtual const DeviceFacts &facts() const = 0;
  /// By the fastest of the library's routines, as a run takes it. Operands are
  /// no longer in a cache because of the product before.
  virtual Expected<double> product(const ProductShape &shape) = 0;
  /// Half of the bytes are read, half written.
  virtual Expected<double> stream(int64_t bytes) = 0;
  /// Between memory of the host that is pinned and the device's.
  virtual Expected<double> hostCopy(int64_t bytes, bool toDevice) = 0;
  /// The smallest kernel and the gap to the next, as a step launches them.
  virtual Expected<double> launch() = 0;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_DEVICEPROBE_H
