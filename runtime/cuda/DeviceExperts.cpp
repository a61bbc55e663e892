//===- DeviceExperts.cpp - products of rows with their experts ------------===//
#include "runtime/cuda/DeviceKernels.h"

#include "runtime/plan/PlanExperts.h"

namespace dpc::rt {

/// Launches a product with one block for each tile.
static Status launchTiles(const CudaApi &cuda, cudaKernel_t kernel,
                          int64_t tiles, const std::vector<void *> &buffers,
                          const std::vector<int64_t> &scalars,
                          cudaStream_t stream) {
  constexpr int64_t threads = 256, mostBlocks = INT32_MAX; // CUDA's limit
  if (tiles == 0)
    return Status::success();
  if (tiles > mostBlocks)
    return Status::unsupported("a product of experts has " +
                               std::to_string(tiles) + " tiles, at most " +
                               std::to_string(mostBlocks) + " are accepted");
  return launchKernel(cuda, kernel, dim3(static_cast<unsigned>(tiles)),
                      dim3(threads), 0, buffers, scalars, stream);
}

Status DeviceKernels::experts(const ExpertMatmulOp &op,
                              const ExpertArrays &arrays, void *workspace,
                              cudaStream_t stream) const {
  constexpr int64_t orderThreads = 1024;
  DPC_TRY(launchKernel(cuda, expertOrderKernel,
                       dim3(static_cast<unsigned>(op.experts + 1)),
                       dim3(orderThreads), 0,
                       {const_cast<void *>(arrays.ids), workspace}, // only read
                       {op.rows, op.experts, arrays.first, arrays.valid,
                        static_cast<int64_t>(arrays.idType)},
                       stream));
  const int64_t width = op.compute == DType::F64 ? 64 : 128; // of a tile
  const int64_t columns = (op.n + width - 1) / width;
  const int64_t isWide = arrays.resultType != op.compute;
  void *x = const_cast<void *>(arrays.x); // only read
  if (op.kind == ExpertMatmulKind::Forward)
    return launchTiles(cuda, expertForward.at(op.compute),
                       expertTiles(op.rows, op.experts) * columns,
                       {x, arrays.w, arrays.y, workspace},
                       {op.rows, op.sharesX, op.experts, op.k, op.n,
                        static_cast<int64_t>(op.transW), isWide},
                       stream);
  const int64_t lines = (op.k + kExpertTileRows - 1) / kExpertTileRows;
  return launchTiles(
      cuda, expertGradient.at(op.compute), op.experts * lines * columns,
      {x, arrays.y, arrays.w, workspace},
      {op.rows, op.sharesX, op.sharesY, op.experts, op.k, op.n, isWide},
      stream);
}

} // namespace dpc::rt
