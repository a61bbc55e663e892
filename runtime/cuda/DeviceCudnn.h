//===- DeviceCudnn.h - convolutions and attention through cuDNN -*- C++ -*-===//
//
// These interfaces hide cuDNN's headers from the rest of the runtime.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CudaApi.h"
#include "runtime/kernels/Attention.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

struct CudnnApi;

/// Computes one rank's convolutions and their gradients on one stream.
class DeviceConvs {
public:
  virtual ~DeviceConvs() = default;

  /// Chooses a routine for `op`, which must outlive this object. Fails if there
  /// is no routine.
  virtual Status prepare(const ConvOp &op) = 0;
  virtual Status allocate() = 0;
  /// Computes a convolution, see ConvOp. `op` must be prepared.
  virtual Status run(const ConvOp &op, void *x, void *w, void *y,
                     cudaStream_t stream) = 0;
};

using OpenConvs =
    Expected<std::unique_ptr<DeviceConvs>> (*)(const CudaApi &cuda);

/// Uses cuDNN. Chooses the first routine of cuDNN's heuristic that is
/// deterministic, does not round f32 operands, and needs at most 256 MiB.
Expected<std::unique_ptr<DeviceConvs>> makeCudnnConvs(const CudaApi &cuda,
                                                      const CudnnApi &cudnn);

/// Computes the attention of one rank and its gradients, all on one stream.
class DeviceAttention {
public:
  virtual ~DeviceAttention() = default;

  /// Prepares `op`, which must outlive this object. If `op` is not supported,
  /// fails without a change to this object. `workspace` is the size in bytes of
  /// the op's workspace in the plan.
  virtual Status prepare(const AttentionOp &op) = 0;
  virtual Status prepare(const AttentionGradOp &op, int64_t workspace) = 0;
  /// Allocates a shared workspace for ops whose own workspace is too small.
  virtual Status allocate() = 0;
  /// Computes an attention, see AttentionOp. `op` must be prepared.
  virtual Status run(const AttentionOp &op, const AttentionData &data,
                     cudaStream_t stream) = 0;
  virtual Status run(const AttentionGradOp &op, const AttentionData &data,
                     cudaStream_t stream) = 0;
};

using OpenAttention = Expected<std::unique_ptr<DeviceAttention>> (*)(
    const CudaApi &cuda, int device);

/// Uses cuDNN, whose library has the handle `library`. Ops with equal shapes
/// and strides share one cuDNN graph. Gradients may differ in the last bits
/// from run to run: cuDNN's deterministic engines are not used, because they
/// store all attention scores.
Expected<std::unique_ptr<DeviceAttention>>
makeCudnnAttention(const CudaApi &cuda, void *library, int device);

/// Compiles the graph of makeCudnnAttention without a GPU and returns the size
/// of its workspace in bytes. Fails if cuDNN has no engine for `op`. `device`
/// is JSON in cuDNN's format, and `capability` is 10 major + minor.
Expected<int64_t> compileCudnnAttention(const AttentionOp &op, void *library,
                                        const std::string &device,
                                        int capability);
Expected<int64_t> compileCudnnAttention(const AttentionGradOp &op,
                                        void *library,
                                        const std::string &device,
                                        int capability);

} // namespace dpc::rt
