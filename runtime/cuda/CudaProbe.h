//===- CudaProbe.h - measurements of a GPU ----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_CUDAPROBE_H
#define DPC_RUNTIME_CUDA_CUDAPROBE_H

#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/DeviceProbe.h"

namespace dpc::rt {

/// Measures GPU `index`. Uses at most `mostBytes` of its memory and at most
/// half of its free memory.
Expected<std::unique_ptr<DeviceProbe>>
makeCudaProbe(const CudaApis &apis, int index,
              int64_t mostBytes = int64_t(4) << 30);

/// Fills operands with varied numbers: the power consumption of a GEMM, and
/// therefore its speed, depends on how many bits change. Each 16 bits encode a
/// number from 1/128 to 2 as bf16 and from 1 to 2 as f16; two such halves form
/// an f32. Returns when `bytes` bytes of device memory from `room` on hold
/// them.
Status fillWithNumbers(const CudaApi &cuda, char *room, int64_t bytes,
                       cudaStream_t stream);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDAPROBE_H
