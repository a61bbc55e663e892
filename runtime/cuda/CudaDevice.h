//===- CudaDevice.h - GPUs as devices ---------------------------*- C++ -*-===//
#pragma once

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceCudnn.h"
#include "runtime/cuda/NcclApi.h"
#include "runtime/exec/Device.h"

namespace dpc::rt {

struct CudaApis {
  CudaApi cuda;
  BlasApi blas;
  /// Called only if each rank is a process.
  Expected<NcclApi> (*loadNccl)() = nullptr;
  /// Called only for plans with convolutions.
  OpenConvs openConvs = nullptr;
  OpenAttention openAttention = nullptr;
  /// The compiled code of DeviceKernels.cu.
  const void *kernels = nullptr;
  bool graphs = true; ///< whether to capture steps as CUDA graphs
};

/// Creates a device that runs plans with PTX kernels and plans without kernels.
std::unique_ptr<Device> makeCudaDevice(const CudaApis &apis);

/// Fails if this GPU cannot run the plan's kernels or fp8 GEMMs. `capability`
/// is the GPU's compute capability as 10 * major + minor, 90 for sm_90.
Status checkTarget(const Plan &plan, int capability);

} // namespace dpc::rt
