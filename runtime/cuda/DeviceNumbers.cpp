#include "runtime/cuda/DeviceNumbers.h"

namespace dpc::rt {

Expected<std::unique_ptr<DeviceNumbers>>
DeviceNumbers::create(const CudaApi &cuda, const DeviceKernels &own,
                      DeviceComm &comm) {
  std::unique_ptr<DeviceNumbers> self(new DeviceNumbers(cuda, own, comm));
  DPC_TRY(cuda.check(cuda.cudaMalloc(&self->flag, 4), "cudaMalloc"));
  DPC_TRY(cuda.check(cuda.cudaHostAlloc(&self->seen, 64, cudaHostAllocDefault),
                     "cudaHostAlloc"));
  return self;
}

DeviceNumbers::~DeviceNumbers() {
  if (flag)
    cuda.cudaFree(flag);
  if (seen)
    cuda.cudaFreeHost(seen);
}

Expected<bool> DeviceNumbers::hasNan(const void *data, DType type,
                                     int64_t count, cudaStream_t stream,
                                     bool infinitiesToo) const {
  bool canBeNan = isFloat(type) && type != DType::F4E2M1;
  if (!canBeNan || count == 0)
    return false;
  DPC_TRY(
      cuda.check(cuda.cudaMemsetAsync(flag, 0, 4, stream), "cudaMemsetAsync"));
  DPC_TRY(own.findNan(data, type, count, infinitiesToo, flag, stream));
  DPC_TRY(cuda.check(
      cuda.cudaMemcpyAsync(seen, flag, 4, cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync"));
  DPC_TRY(comm.wait(stream));
  return *static_cast<const int *>(seen) != 0;
}

} // namespace dpc::rt
