//===- DeviceCudnn.h - convolutions and attention through cuDNN -*- C++ -*-===//
//
// With these interfaces, the other files of the runtime are built without
// cuDNN's headers.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_DEVICECUDNN_H
#define DPC_RUNTIME_CUDA_DEVICECUDNN_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/kernels/Attention.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

struct CudnnApi;

/// Convolutions of one rank and their gradients, all on one stream.
class DeviceConvs {
public:
  virtual ~DeviceConvs() = default;

  /// Chooses a routine for `op`, which must outlive this object. Fails when
  /// there is no routine.
  virtual Status prepare(const ConvOp &op) = 0;
  /// Allocates the workspace for all prepared ops.
  virtual Status allocate() = 0;
  /// Computes a convolution, see ConvOp; `op` must be prepared.
  virtual Status run(const ConvOp &op, void *x, void *w, void *y,
                     cudaStream_t stream) = 0;
};

/// Opens the implementation, or fails with the reason.
using OpenConvs =
    Expected<std::unique_ptr<DeviceConvs>> (*)(const CudaApi &cuda);

/// The cuDNN implementation. From cuDNN's heuristic, it takes the first routine
/// that is deterministic, computes f32 in full precision, and needs at most 256
/// MiB.
Expected<std::unique_ptr<DeviceConvs>> makeCudnnConvs(const CudaApi &cuda,
                                                      const CudnnApi &cudnn);

/// Attention instructions of one rank and their gradients, all on one stream.
class DeviceAttention {
public:
  virtual ~DeviceAttention() = default;

  /// Prepares `op`, which must outlive this object. If no implementation
  /// supports `op`, fails and leaves this object unchanged.
  virtual Status prepare(const AttentionOp &op) = 0;
  virtual Status prepare(const AttentionGradOp &op, int64_t workspace) = 0;
  /// Allocates a workspace that is shared by the prepared ops whose workspace
  /// in the plan is too small.
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

/// The cuDNN implementation; `library` is the handle of cuDNN. Attentions of
/// the same shape and layout share one graph. The order in which gradients are
/// summed varies from run to run: cuDNN's deterministic engines are not used,
/// because they store all scores.
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

#endif // DPC_RUNTIME_CUDA_DEVICECUDNN_H
