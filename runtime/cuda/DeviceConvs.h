//===- DeviceConvs.h - convolutions on the device ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICECONVS_H
#define DPC_RUNTIME_CUDA_DEVICECONVS_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

struct CudnnApi;

/// Convolutions of one rank and their gradients, all on one stream. This is an
/// interface, so that the rest of the runtime can be built without cuDNN's
/// headers.
class DeviceConvs {
public:
  virtual ~DeviceConvs() = default;

  /// Chooses a routine for `op`, which outlives this object. Fails when there
  /// is none.
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

/// The implementation by cuDNN. It uses the first routine of the heuristic that
/// is deterministic, computes f32 in full precision, and takes at most 256 MiB.
Expected<std::unique_ptr<DeviceConvs>> makeCudnnConvs(const CudaApi &cuda,
                                                      const CudnnApi &cudnn);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICECONVS_H
