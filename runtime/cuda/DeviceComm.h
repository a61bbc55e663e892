//===- DeviceComm.h - communication of device memory ------------*- C++ -*-===//
//
// DeviceComm is like Communicator, but for device memory and streams: a call
// submits work to a stream and returns. The stream then waits for other ranks;
// wait() is the only call that blocks the host.
//
// Messages have no tags, because NCCL matches them in order and its send waits
// for the recv. All ranks therefore submit the two ends of each message at the
// same position in one common order of communication (MessagePlan.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/CudaApi.h"

#include <functional>

namespace dpc::rt {

struct DeviceMessage {
  void *data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  bool isSend = false;
};

class DeviceComm {
public:
  virtual ~DeviceComm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Called once on every rank, see Communicator.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;
  /// Allocates device memory for communication, which lives as long as this
  /// object. Call makeGroups first.
  virtual Expected<void *> allocate(int64_t bytes) = 0;
  /// Returns whether a CUDA graph can contain this communicator's work.
  virtual bool capturable() const = 0;

  /// Reduces slices over the group, in place, after multiplication by `scale`
  /// (1 / N for an average).
  virtual Status allReduce(int group, const std::vector<Slice> &slices,
                           ReduceKind kind, double scale,
                           cudaStream_t stream) = 0;
  virtual Status reduceScatter(int group, const void *in, void *out,
                               int64_t count, DType type, ReduceKind kind,
                               cudaStream_t stream) = 0;
  virtual Status allGather(int group, const void *in, void *out, int64_t bytes,
                           cudaStream_t stream) = 0;
  virtual Status allToAll(int group, const void *in, void *out, int64_t bytes,
                          cudaStream_t stream) = 0;
  virtual Status broadcast(int group, void *data, int64_t bytes, int root,
                           cudaStream_t stream) = 0;
  /// Runs `calls`, which submits independent operations of one group. May
  /// combine the operations.
  virtual Status together(int group, const char *name, cudaStream_t stream,
                          const std::function<Status()> &calls) {
    (void)group, (void)name, (void)stream;
    return calls();
  }
  /// Submits all messages as one operation. Each message waits only for its
  /// other end.
  virtual Status exchange(const std::vector<DeviceMessage> &messages,
                          cudaStream_t stream) = 0;

  /// Waits until the stream is idle. Fails if a rank has failed, or after the
  /// timeout; the error then names the missing ranks. After a failure, the
  /// communicator cannot be used.
  virtual Status wait(cudaStream_t stream) = 0;

  /// Cancels all pending work. wait() then fails on all ranks.
  virtual void abort() = 0;
};

/// Creates a communicator that uses NCCL. It uses `control` to connect the
/// ranks and to find missing ranks. NCCL chooses the order of sums: it is the
/// same in every run of a job, but it is not the order of the ranks. `api`,
/// `nccl` and `control` must outlive the communicator.
struct NcclApi;
Expected<std::unique_ptr<DeviceComm>> makeNcclComm(const CudaApi &api,
                                                   const NcclApi &nccl,
                                                   Communicator &control,
                                                   double timeoutSeconds);

class DeviceKernels;

/// Creates communicators for ranks that are threads and share one GPU. Sums are
/// in the order of the ranks. A group has at most kMostInProcess ranks. `api`
/// and `kernels` must outlive the communicators.
inline constexpr int kMostInProcess = 16;
std::vector<std::unique_ptr<DeviceComm>>
makeInProcessComms(const CudaApi &api, const DeviceKernels &kernels, int ranks,
                   double timeoutSeconds);

} // namespace dpc::rt
