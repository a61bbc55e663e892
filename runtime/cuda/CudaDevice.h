//===- CudaDevice.h - GPUs as devices ---------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_CUDADEVICE_H
#define DPC_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceCudnn.h"
#include "runtime/cuda/NcclApi.h"
#include "runtime/exec/Device.h"

namespace dpc::rt {

/// The libraries that a device uses.
struct CudaApis {
  CudaApi cuda;
  BlasApi blas;
  /// Called when ranks are processes; NCCL is not needed otherwise.
  Expected<NcclApi> (*loadNccl)() = nullptr;
  /// Called when a plan has convolutions.
  OpenConvs openConvs = nullptr;
  OpenAttention openAttention = nullptr;
  /// The compiled DeviceKernels.cu.
  const void *kernels = nullptr;
  bool graphs = true; ///< capture steps as graphs where possible
};

/// Makes a device that runs plans with PTX kernels (Plan::targetGpu) and plans
/// without kernels.
std::unique_ptr<Device> makeCudaDevice(const CudaApis &apis);

/// Fails if the plan is not for a GPU of compute capability `capability` (10
/// major + minor), or has fp8 GEMMs that this GPU does not support.
Status checkTarget(const Plan &plan, int capability);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDADEVICE_H
