//===- DeviceNumbers.h - detection of NaN in GPU memory ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICENUMBERS_H
#define DPC_RUNTIME_CUDA_DEVICENUMBERS_H

#include "runtime/cuda/DeviceKernels.h"

namespace dpc::rt {

/// Searches for NaN in the results of a stream, for
/// ExecutorOptions::checkNumbers. It waits for the stream each time, so a
/// checked step is slow and cannot be a graph.
class DeviceNumbers {
public:
  /// The arguments outlive the object.
  static Expected<std::unique_ptr<DeviceNumbers>>
  create(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm);
  ~DeviceNumbers();

  /// Whether one of `count` elements is NaN, once `stream` has finished; with
  /// `infinitiesToo`, also whether one is infinite, as itself or as f32.
  Expected<bool> hasNan(const void *data, DType type, int64_t count,
                        cudaStream_t stream, bool infinitiesToo = false) const;

private:
  DeviceNumbers(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm)
      : cuda(cuda), own(own), comm(comm) {}

  const CudaApi &cuda;
  const DeviceKernels &own;
  DeviceComm &comm;
  void *flag = nullptr; ///< 4 bytes on the device: nonzero if one was found
  void *seen = nullptr; ///< pinned copy of `flag`
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICENUMBERS_H
