//===- DeviceAttention.h - attention on the device --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICEATTENTION_H
#define DPC_RUNTIME_CUDA_DEVICEATTENTION_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/kernels/Attention.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

/// Attention of one rank and its gradients, all on one stream. An interface, so
/// that a build without cuDNN's headers has the rest.
class DeviceAttention {
public:
  virtual ~DeviceAttention() = default;

  /// Makes what runs `op`, which outlives this and has a workspace of so many
  /// bytes. Fails where there is nothing, and then leaves this as it was.
  virtual Status prepare(const AttentionOp &op) = 0;
  virtual Status prepare(const AttentionGradOp &op, int64_t workspace) = 0;
  /// Takes a workspace for what was prepared with too little.
  virtual Status allocate() = 0;
  /// See AttentionOp; `op` was prepared.
  virtual Status run(const AttentionOp &op, const AttentionData &data,
                     cudaStream_t stream) = 0;
  virtual Status run(const AttentionGradOp &op, const AttentionData &data,
                     cudaStream_t stream) = 0;
};

/// Makes it for GPU `device`, or says why there is none.
using OpenAttention = Expected<std::unique_ptr<DeviceAttention>> (*)(
    const CudaApi &cuda, int device);

/// Through cuDNN, whose opened library this is. One graph for all attentions of
/// one shape and layout. Gradients add up in an order that is not always the
/// same: those of cuDNN that do store all scores.
Expected<std::unique_ptr<DeviceAttention>>
makeCudnnAttention(const CudaApi &cuda, void *library, int device);

/// Whether cuDNN has an engine for `op` on a GPU with the properties in
/// `device`, JSON as cuDNN takes it, of compute capability 10 major + minor:
/// the graph of makeCudnnAttention is compiled, and its workspace returned.
/// Needs no GPU.
Expected<int64_t> compileCudnnAttention(const AttentionOp &op, void *library,
                                        const std::string &device,
                                        int capability);
Expected<int64_t> compileCudnnAttention(const AttentionGradOp &op,
                                        void *library,
                                        const std::string &device,
                                        int capability);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICEATTENTION_H
