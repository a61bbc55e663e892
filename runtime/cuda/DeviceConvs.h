//===- DeviceConvs.h - convolutions on the device ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICECONVS_H
#define DPC_RUNTIME_CUDA_DEVICECONVS_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

struct CudnnApi;

/// Convolutions of one rank, and their gradients, all on one stream. An
/// interface, so that a build without cuDNN's headers has the rest.
class DeviceConvs {
public:
  virtual ~DeviceConvs() = default;

  /// Chooses a routine for `op`, which outlives this. Fails when there is none.
  virtual Status prepare(const ConvOp &op) = 0;
  /// Takes the workspace of all that was prepared.
  virtual Status allocate() = 0;
  /// See ConvOp; `op` was prepared.
  virtual Status run(const ConvOp &op, void *x, void *w, void *y,
                     cudaStream_t stream) = 0;
};

/// Makes them, or says why there are none.
using OpenConvs =
    Expected<std::unique_ptr<DeviceConvs>> (*)(const CudaApi &cuda);

/// Through cuDNN. Of its routines the first of the heuristic's that always
/// gives the same bits, computes f32 as such, and takes at most 256 MiB.
Expected<std::unique_ptr<DeviceConvs>> makeCudnnConvs(const CudaApi &cuda,
                                                      const CudnnApi &cudnn);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICECONVS_H
