#include "runtime/cuda/DeviceNumbers.h"

namespace dpc::rt {

Expected<std::unique_ptr<DeviceNumbers>>
DeviceNumbers::create(const CudaApi &cuda, const DeviceKernels &own,
                      DeviceComm &comm) {
  std::unique_ptr<DeviceNumbers> self(new DeviceNumbers(cuda, own, comm));
  DPC_TRY(assign(self->flag, cuda.allocate(4)));
  DPC_TRY(assign(self->seen, cuda.allocatePinned(64)));
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
  DPC_TRY(cuda.set(flag, 0, 4, stream));
  DPC_TRY(own.findNan(data, type, count, infinitiesToo, flag, stream));
  DPC_TRY(cuda.copy(seen, flag, 4, cudaMemcpyDeviceToHost, stream));
  DPC_TRY(comm.wait(stream));
  return *static_cast<const int *>(seen) != 0;
}

} // namespace dpc::rt
