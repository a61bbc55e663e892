//===- CudaProbe.h - how fast a GPU is --------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_CUDAPROBE_H
#define DPC_RUNTIME_CUDA_CUDAPROBE_H

#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/DeviceProbe.h"

namespace dpc::rt {

/// Measures GPU `index` in at most `mostBytes` of it and half of what is free.
Expected<std::unique_ptr<DeviceProbe>>
makeCudaProbe(const CudaApis &apis, int index,
              int64_t mostBytes = int64_t(4) << 30);

/// Operands that are not all one number: how much power a product takes, and so
/// how fast it is, depends on the bits that change. Every 16 bits are a number
/// from 1/128 to 2 as bf16, from 1 to 2 as f16; two of them are one as f32.
/// Returns when `bytes` from `room` on, of the device, hold them.
Status fillWithNumbers(const CudaApi &cuda, char *room, int64_t bytes,
                       cudaStream_t stream);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDAPROBE_H
