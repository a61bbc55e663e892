//===- DeviceComm.h - communication of device memory ------------*- C++ -*-===//
//
// This interface is like Communicator, but for device memory and streams: a
// call submits work to the stream and returns, and only the stream waits for
// other ranks. wait() is the only call that blocks.
//
// Messages differ from those of Communicator, which match by tag, in any order,
// and whose sends do not wait. A stream runs its work in order, and NCCL's send
// waits for the receive. Therefore all ranks share one order of messages
// (MessagePlan.h finds it) and submit both ends of a message at the same place
// of this order, without tags.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_DEVICECOMM_H
#define DPC_RUNTIME_CUDA_DEVICECOMM_H

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/CudaApi.h"

#include <functional>

namespace dpc::rt {

/// One end of a message: `data` is sent to, or received from, a rank of the
/// world.
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

  /// Called once by all ranks, see Communicator.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;
  /// Allocates device memory that is fast to communicate from. The memory is
  /// freed with this object. Called after makeGroups.
  virtual Expected<void *> allocate(int64_t bytes) = 0;
  /// Whether a stream with this communicator's work can be captured.
  virtual bool capturable() const = 0;

  /// Reduces slices over the group, in place; each member's values are
  /// multiplied by `scale` first (1 / N for an average).
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
  /// Submits the group operations of `calls` to the stream, all at once if that
  /// is faster. The operations must be independent of each other.
  virtual Status together(int group, const char *name, cudaStream_t stream,
                          const std::function<Status()> &calls) {
    (void)group, (void)name, (void)stream;
    return calls();
  }
  /// Submits all messages at once. A message waits for its other end, not for
  /// the other messages.
  virtual Status exchange(const std::vector<DeviceMessage> &messages,
                          cudaStream_t stream) = 0;

  /// Returns when the stream has finished its work. Fails if a rank has failed.
  /// After the timeout, fails and names the missing ranks. The communicator is
  /// unusable after a failure.
  virtual Status wait(cudaStream_t stream) = 0;

  /// Cancels pending work, and makes the waits of the other ranks fail.
  virtual void abort() = 0;
};

/// Communicates through NCCL between ranks of other processes or threads. The
/// ranks use `control` to find each other and to notice missing ranks. NCCL
/// chooses the order of sums, which is the same in every run of a job but is
/// not the order of the ranks. `api`, `nccl` and `control` must outlive the
/// communicator.
struct NcclApi;
Expected<std::unique_ptr<DeviceComm>> makeNcclComm(const CudaApi &api,
                                                   const NcclApi &nccl,
                                                   Communicator &control,
                                                   double timeoutSeconds);

/// Launches dpcReduce and dpcFill (DeviceKernels.cu) on a stream.
class DeviceKernels;

/// Communicators of ranks that are threads of this process and share one
/// device. Sums are taken in the order of the members. A group has at most
/// kMostInProcess members. `api` and `kernels` must outlive the communicators.
inline constexpr int kMostInProcess = 16;
std::vector<std::unique_ptr<DeviceComm>>
makeInProcessComms(const CudaApi &api, const DeviceKernels &kernels, int ranks,
                   double timeoutSeconds);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICECOMM_H
