//===- CudaDevice.h - GPUs as what runs ranks -------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_CUDADEVICE_H
#define DPC_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceAttention.h"
#include "runtime/cuda/DeviceConvs.h"
#include "runtime/cuda/NcclApi.h"
#include "runtime/exec/Device.h"

namespace dpc::rt {

/// What the device is reached through.
struct CudaApis {
  CudaApi cuda;
  BlasApi blas;
  /// Asked for when ranks are processes; elsewhere NCCL need not be there.
  Expected<NcclApi> (*loadNccl)() = nullptr;
  /// Asked for when a plan has convolutions.
  OpenConvs openConvs = nullptr;
  OpenAttention openAttention = nullptr;
  /// DeviceKernels.cu, compiled.
  const void *kernels = nullptr;
  bool graphs = true; ///< capture steps where that is possible
};

/// Runs plans whose kernels are PTX (Plan::targetGpu), and those without
/// kernels of their own.
std::unique_ptr<Device> makeCudaDevice(const CudaApis &apis);

/// Fails when the plan is not for a GPU of compute capability `major`.`minor`,
/// or has products of fp8 that it does not compute.
Status checkTarget(const Plan &plan, int major, int minor);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDADEVICE_H
