//===- DeviceAttention.h - attention on the device --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICEATTENTION_H
#define DPC_RUNTIME_CUDA_DEVICEATTENTION_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/kernels/Attention.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

/// Attention instructions of one rank and their gradients, all on one stream.
/// This is an interface, so that the rest of the runtime can be built without
/// cuDNN's headers.
class DeviceAttention {
public:
  virtual ~DeviceAttention() = default;

  /// Prepares `op`, which outlives this object and has a workspace of
  /// `workspace` bytes. If there is no implementation, fails and leaves this
  /// object unchanged.
  virtual Status prepare(const AttentionOp &op) = 0;
  virtual Status prepare(const AttentionGradOp &op, int64_t workspace) = 0;
  /// Allocates a workspace for the prepared ops whose own workspace is too
  /// small.
  virtual Status allocate() = 0;
  /// Computes an attention, see AttentionOp; `op` must be prepared.
  virtual Status run(const AttentionOp &op, const AttentionData &data,
                     cudaStream_t stream) = 0;
  virtual Status run(const AttentionGradOp &op, const AttentionData &data,
                     cudaStream_t stream) = 0;
};

/// Opens the implementation for GPU `device`, or fails with the reason.
using OpenAttention = Expected<std::unique_ptr<DeviceAttention>> (*)(
    const CudaApi &cuda, int device);

/// The implementation by cuDNN, with `library` as the handle of cuDNN.
/// Attentions of the same shape and layout share one graph. Gradients add up in
/// an order that varies from run to run, because cuDNN's deterministic engines
/// store all scores.
Expected<std::unique_ptr<DeviceAttention>>
makeCudnnAttention(const CudaApi &cuda, void *library, int device);

/// Checks whether cuDNN has an engine for `op` on a GPU with the properties in
/// `device` (JSON in cuDNN's format) and compute capability 10 major + minor.
/// Compiles the graph of makeCudnnAttention and returns the size of its
/// workspace. Needs no GPU.
Expected<int64_t> compileCudnnAttention(const AttentionOp &op, void *library,
                                        const std::string &device,
                                        int capability);
Expected<int64_t> compileCudnnAttention(const AttentionGradOp &op,
                                        void *library,
                                        const std::string &device,
                                        int capability);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICEATTENTION_H
