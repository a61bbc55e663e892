//===- DeviceComm.h - how ranks exchange device memory ----------*- C++ -*-===//
//
// Like Communicator, for memory of devices and in the order of a stream: a call
// gives work to the stream and returns; what it waits for, the stream waits
// for. Only wait() blocks until things have happened.
//
// The one difference is in messages. Communicator's meet by tag, in any order,
// and a send waits for nobody. A stream does its work in order, and NCCL's send
// waits for the receive; so all ranks give a message's two ends at one place of
// one order that they share (MessagePlan.h finds it), and need no tags.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_DEVICECOMM_H
#define DPC_RUNTIME_CUDA_DEVICECOMM_H

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/CudaApi.h"

#include <functional>

namespace dpc::rt {

/// One end of a message: `data` goes to, or comes from, a rank of the world.
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

  /// Once, by all ranks: see Communicator.
  virtual Status makeGroups(const std::vector<Group> &groups) = 0;
  /// Device memory that communication is quick from. Freed with this object,
  /// after what uses it; to be called behind makeGroups.
  virtual Expected<void *> allocate(int64_t bytes) = 0;
  /// Whether a stream with this communicator's work may be captured.
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
  /// What `calls` asks of the group on the stream, at once where that is
  /// quicker: none of it needs what another one gives.
  virtual Status together(int group, const char *name, cudaStream_t stream,
                          const std::function<Status()> &calls) {
    (void)group, (void)name, (void)stream;
    return calls();
  }
  /// All of them at once: they wait for their other ends, not for each other.
  virtual Status exchange(const std::vector<DeviceMessage> &messages,
                          cudaStream_t stream) = 0;

  /// Returns once the stream has done its work. Fails when a rank failed, and
  /// when the timeout passes, with the ranks that are missing; the
  /// communicator is of no use after that.
  virtual Status wait(cudaStream_t stream) = 0;

  /// Ends what is on its way, and makes the waits of the other ranks fail.
  virtual void abort() = 0;
};

/// Ranks of other processes, or threads: through NCCL, which `control` lets
/// them find each other by and notice who is missing. Sums are taken in an
/// order that NCCL chooses: the same in every run of the same job, but not that
/// of the ranks. `api`, `nccl` and `control` outlive it.
struct NcclApi;
Expected<std::unique_ptr<DeviceComm>> makeNcclComm(const CudaApi &api,
                                                   const NcclApi &nccl,
                                                   Communicator &control,
                                                   double timeoutSeconds);

/// Launches dpcReduce and dpcFill (DeviceKernels.cu) on a stream.
class DeviceKernels;

/// All ranks are threads of this process and share one device. Sums are taken
/// in the order of the members. A group has at most kMostInProcess members.
/// `api` and `kernels` outlive them.
inline constexpr int kMostInProcess = 16;
std::vector<std::unique_ptr<DeviceComm>>
makeInProcessComms(const CudaApi &api, const DeviceKernels &kernels, int ranks,
                   double timeoutSeconds);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICECOMM_H
