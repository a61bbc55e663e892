//===- CudaTensors.cpp - tensors between steps, and checks for NaN --------===//
#include "runtime/cuda/CudaExecutor.h"

#include "runtime/base/Wait.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

/// Large enough for the full speed of the bus, small enough for host memory.
static constexpr int64_t kStagingBytes = int64_t(64) << 20;

/// Copies a buffer in slices through `staging`, which is kept because
/// allocating pinned memory synchronizes the device.
Status CudaExecutor::moveNow(const Buffer &buffer, char *host, bool toDevice) {
  DPC_TRY(cuda.setDevice(context.device));
  if (!staging.data) {
    DPC_TRY(assign(staging, pinned->take(std::clamp<int64_t>(arenaBytes, 64,
                                                             kStagingBytes))));
  }
  for (int64_t at = 0; at < buffer.bytes; at += staging.bytes) {
    int64_t bytes = std::min(staging.bytes, buffer.bytes - at);
    char *inside = arena + buffer.offset + at;
    if (toDevice)
      std::memcpy(staging.data, host + at, bytes);
    DPC_TRY(toDevice ? cuda.copy(inside, staging.data, bytes,
                                 cudaMemcpyHostToDevice, streams->main())
                     : cuda.copy(staging.data, inside, bytes,
                                 cudaMemcpyDeviceToHost, streams->main()));
    DPC_TRY(comm->wait(streams->main()));
    if (!toDevice)
      std::memcpy(host + at, staging.data, bytes);
  }
  return Status::success();
}

Status CudaExecutor::fillBuffer(int id,
                                const std::function<Status(char *)> &fill) {
  const Buffer &buffer = plan.buffers[id];
  std::vector<char> bytes(static_cast<size_t>(buffer.bytes),
                          static_cast<char>(fillByte));
  DPC_TRY(fill(bytes.data()));
  if (buffer.space == Space::Disk)
    return disk->file.write(buffer.offset, bytes.data(), buffer.bytes);
  if (buffer.space == Space::Device)
    return moveNow(buffer, bytes.data(), true);
  std::memcpy(hostArena.data + buffer.offset, bytes.data(), buffer.bytes);
  return Status::success();
}

Expected<const char *> CudaExecutor::readBuffer(int id,
                                                std::vector<char> &scratch) {
  const Buffer &buffer = plan.buffers[id];
  if (buffer.space == Space::Host)
    return static_cast<const char *>(hostArena.data + buffer.offset);
  scratch.resize(buffer.bytes);
  DPC_TRY(buffer.space == Space::Disk
              ? disk->file.read(buffer.offset, scratch.data(), buffer.bytes)
              : moveNow(buffer, scratch.data(), false));
  return static_cast<const char *>(scratch.data());
}

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

/// Checks all tensors for NaN and infinities, including their padding, which is
/// zero. Only a tensor that fails is copied to the host.
Status CudaExecutor::checkTensors() {
  std::vector<char> scratch;
  for (const Tensor &tensor : plan.tensors) {
    const Buffer &buffer = plan.buffers[tensor.buffer];
    if (!holds(tensor.buffer) || buffer.space != Space::Device || fault)
      continue;
    bool isBad = false;
    DPC_TRY(assign(isBad,
                   numbers->hasNan(arena + buffer.offset, buffer.dtype,
                                   numElements(buffer.shape), streams->main(),
                                   /*infinitiesToo=*/true)));
    if (!isBad)
      continue;
    const char *bytes = nullptr;
    DPC_TRY(assign(bytes, readBuffer(tensor.buffer, scratch)));
    std::string why = faultOf(tensor, bytes, numElements(buffer.shape));
    if (!why.empty())
      fault = NumberFault{nowSeconds(), why};
  }
  return Status::success();
}

} // namespace dpc::rt
