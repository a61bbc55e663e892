//===- DeviceNumbers.h - NaN in the memory of a GPU -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICENUMBERS_H
#define DPC_RUNTIME_CUDA_DEVICENUMBERS_H

#include "runtime/cuda/DeviceKernels.h"

namespace dpc::rt {

/// Looks for NaN in what a stream has written, for
/// ExecutorOptions::checkNumbers. It waits for the stream each time: a step
/// that is looked at is slow, and no graph.
class DeviceNumbers {
public:
  /// The arguments outlive it.
  static Expected<std::unique_ptr<DeviceNumbers>>
  create(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm);
  ~DeviceNumbers();

  /// Whether there is one among `count` elements, once `stream` is there; or
  /// an infinity, or what is one as f32.
  Expected<bool> hasNan(const void *data, DType type, int64_t count,
                        cudaStream_t stream, bool infinitiesToo = false) const;

private:
  DeviceNumbers(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm)
      : cuda(cuda), own(own), comm(comm) {}

  const CudaApi &cuda;
  const DeviceKernels &own;
  DeviceComm &comm;
  void *flag = nullptr; ///< 4 bytes of the device: not zero where one was seen
  void *seen = nullptr; ///< pinned, what `flag` held
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICENUMBERS_H
