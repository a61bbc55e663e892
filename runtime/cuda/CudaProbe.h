//===- CudaProbe.h - measurements of a GPU ----------------------*- C++ -*-===//
#pragma once

#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/DeviceProbe.h"

namespace dpc::rt {

/// Creates a probe of GPU `index` that uses at most `mostBytes` and at most
/// half of the GPU's free memory.
Expected<std::unique_ptr<DeviceProbe>>
makeCudaProbe(const CudaApis &apis, int index,
              int64_t mostBytes = int64_t(4) << 30);

/// Fills device memory with random numbers and waits for the end. The more bits
/// change, the more power a GEMM needs and the slower it runs, so measurements
/// must not use equal numbers. Every 16 bits are a bf16 number with magnitude
/// 1/128 to 2, or an f16 number with magnitude 1 to 2.
Status fillWithNumbers(const CudaApi &cuda, char *room, int64_t bytes,
                       cudaStream_t stream);

} // namespace dpc::rt
