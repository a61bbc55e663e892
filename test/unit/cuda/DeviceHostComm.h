//===- DeviceHostComm.h - a DeviceComm as a Communicator --------*- C++ -*-===//
#pragma once

#include "runtime/cuda/DeviceComm.h"

#include <cstring>

namespace dpc::rt::test {

/// Copies data to the device, communicates there, and copies the results back,
/// so that the suite of all communicators can test a DeviceComm. Messages use
/// `control`, because a DeviceComm needs the order of messages in a plan, as do
/// uneven exchanges, which a DeviceComm lacks.
class DeviceHostComm : public Communicator {
public:
  DeviceHostComm(const CudaApi &cuda, DeviceComm &device, Communicator &control)
      : cuda(cuda), device(device), control(control) {
    cuda.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  ~DeviceHostComm() override {
    cuda.cudaStreamDestroy(stream);
    for (Space *space : {&in, &out}) {
      cuda.cudaFree(space->device);
      cuda.cudaFreeHost(space->host);
    }
  }

  int rank() const override { return device.rank(); }
  int size() const override { return device.size(); }
  Status makeGroups(const std::vector<Group> &made) override {
    DPC_TRY(control.makeGroups(made));
    for (const Group &group : made)
      groupSizes.push_back(static_cast<int64_t>(group.members.front().size()));
    return device.makeGroups(made);
  }

  Status allReduce(int group, const std::vector<Slice> &slices,
                   ReduceKind kind) override {
    int64_t bytes = 0;
    for (const Slice &slice : slices)
      bytes += padded(slice);
    DPC_TRY(in.reserve(cuda, bytes));
    std::vector<Slice> inside;
    int64_t at = 0;
    for (const Slice &slice : slices) {
      if (slice.count > 0)
        std::memcpy(in.host + at, slice.data, slice.count * sizeOf(slice.type));
      inside.push_back({in.device + at, slice.count, slice.type});
      at += padded(slice);
    }
    DPC_TRY(copy(in, bytes, cudaMemcpyHostToDevice));
    DPC_TRY(device.allReduce(group, inside, kind, 1, stream));
    DPC_TRY(copy(in, bytes, cudaMemcpyDeviceToHost));
    DPC_TRY(device.wait(stream));
    at = 0;
    for (const Slice &slice : slices) {
      if (slice.count > 0)
        std::memcpy(slice.data, in.host + at, slice.count * sizeOf(slice.type));
      at += padded(slice);
    }
    return Status::success();
  }
  Status reduceScatter(int group, const void *from, void *to, int64_t count,
                       DType type, ReduceKind kind) override {
    int64_t bytes = count * sizeOf(type);
    return through(from, bytes * sizeOfGroup(group), to, bytes, [&] {
      return device.reduceScatter(group, in.device, out.device, count, type,
                                  kind, stream);
    });
  }
  Status allGather(int group, const void *from, void *to,
                   int64_t bytes) override {
    return through(from, bytes, to, bytes * sizeOfGroup(group), [&] {
      return device.allGather(group, in.device, out.device, bytes, stream);
    });
  }
  Status allToAll(int group, const void *from, const std::vector<int64_t> &sent,
                  void *to, const std::vector<int64_t> &received) override {
    int64_t bytes = sent.front();
    for (const auto *sizes : {&sent, &received})
      for (int64_t size : *sizes)
        if (size != bytes)
          return control.allToAll(group, from, sent, to, received);
    int64_t all = bytes * sizeOfGroup(group);
    return through(from, all, to, all, [&] {
      return device.allToAll(group, in.device, out.device, bytes, stream);
    });
  }
  Status broadcast(int group, void *data, int64_t bytes, int root) override {
    return through(data, bytes, data, bytes, [&]() -> Status {
      DPC_TRY(device.broadcast(group, in.device, bytes, root, stream));
      return cuda.copy(out.device, in.device, bytes, cudaMemcpyDeviceToDevice,
                       stream);
    });
  }
  Status send(int group, const void *data, int64_t bytes, int peer,
              int64_t tag) override {
    return control.send(group, data, bytes, peer, tag);
  }
  Status recv(int group, void *data, int64_t bytes, int peer,
              int64_t tag) override {
    return control.recv(group, data, bytes, peer, tag);
  }
  Status finishSends() override { return control.finishSends(); }
  Status barrier(int group) override { return control.barrier(group); }
  void abort() override { device.abort(); }
  void setTimeout(double seconds) override { control.setTimeout(seconds); }

private:
  struct Space {
    char *host = nullptr, *device = nullptr;
    int64_t bytes = 0;
    Status reserve(const CudaApi &cuda, int64_t wanted) {
      if (wanted <= bytes && bytes > 0)
        return Status::success();
      cuda.cudaFree(device);
      cuda.cudaFreeHost(host);
      bytes = wanted + 64;
      DPC_TRY(assign(device, cuda.allocate(bytes)));
      return assign(host, cuda.allocatePinned(bytes));
    }
  };

  static int64_t padded(const Slice &slice) {
    return (slice.count * sizeOf(slice.type) + 63) / 64 * 64;
  }
  int64_t sizeOfGroup(int group) const {
    return group == kWorldGroup ? size() : groupSizes[group];
  }
  Status copy(Space &space, int64_t bytes, cudaMemcpyKind kind) {
    bool isIn = kind == cudaMemcpyHostToDevice;
    return isIn ? cuda.copy(space.device, space.host, bytes, kind, stream)
                : cuda.copy(space.host, space.device, bytes, kind, stream);
  }
  template <typename Call>
  Status through(const void *from, int64_t inBytes, void *to, int64_t outBytes,
                 Call &&call) {
    DPC_TRY(in.reserve(cuda, inBytes));
    DPC_TRY(out.reserve(cuda, outBytes));
    std::memcpy(in.host, from, inBytes);
    DPC_TRY(copy(in, inBytes, cudaMemcpyHostToDevice));
    DPC_TRY(call());
    DPC_TRY(copy(out, outBytes, cudaMemcpyDeviceToHost));
    DPC_TRY(device.wait(stream));
    std::memcpy(to, out.host, outBytes);
    return Status::success();
  }

  const CudaApi &cuda;
  DeviceComm &device;
  Communicator &control;
  cudaStream_t stream = nullptr;
  Space in, out;
  std::vector<int64_t> groupSizes;
};

} // namespace dpc::rt::test
