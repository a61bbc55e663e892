//===- DeviceKernels.h - the runtime's own kernels --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICEKERNELS_H
#define DPC_RUNTIME_CUDA_DEVICEKERNELS_H

#include "runtime/cuda/DeviceComm.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// What no library does: sums in the order of the ranks, fills, codes of fp8,
/// and epilogues that cuBLASLt has no routine for. They have the ABI of a
/// plan's kernels: a pointer for each buffer, then an i64 for each scalar.
class DeviceKernels {
public:
  /// `image`: DeviceKernels.cu, compiled.
  static Expected<std::unique_ptr<DeviceKernels>> load(const CudaApi &cuda,
                                                       const void *image);
  ~DeviceKernels();

  /// out[i] = reduction of scale * parts[0][first + i], ... in this order, for
  /// i < count; at most kMostInProcess parts.
  Status reduce(const std::vector<const void *> &parts, void *out,
                int64_t first, int64_t count, DType type, ReduceKind kind,
                double scale, cudaStream_t stream) const;
  /// `count` elements of `width` bytes (1, 2, 4, 8), each the low bytes of
  /// `bits`.
  Status fill(void *to, int64_t count, int64_t width, int64_t bits,
              cudaStream_t stream) const;
  /// What an epilogue does with the product in C, but for sums.
  Status epilogue(const MatmulOp &op, void *c, void *bias, void *aux,
                  DType type, cudaStream_t stream) const;
  /// to[j] = sum over i of a rows x columns matrix, in f32 and always in the
  /// same order.
  Status sumColumns(const void *matrix, DType type, int64_t rows,
                    int64_t columns, int64_t ld, void *to, DType toType,
                    cudaStream_t stream) const;
  /// Writes an int that is not zero to `flag` where one of `count` elements is
  /// NaN, or infinite as f32.
  Status findNan(const void *data, DType type, int64_t count,
                 bool infinitiesToo, void *flag, cudaStream_t stream) const;
  /// The bits of the largest |x| of a matrix of bf16 as f32, into `bits`, which
  /// is 0 before.
  Status amax(const void *matrix, int64_t rows, int64_t columns, int64_t ld,
              void *bits, cudaStream_t stream) const;
  /// The codes of a matrix of bf16, of multiples of 16 rows and columns (see
  /// Fp8Factors), in rows of `columns` or, transposed, of `rows`; and what they
  /// are multiplied by to be the matrix again.
  Status fp8Codes(const void *matrix, int64_t rows, int64_t columns, int64_t ld,
                  const void *amaxBits, DType format, bool transposes,
                  void *codes, void *inverse, cudaStream_t stream) const;

private:
  explicit DeviceKernels(const CudaApi &cuda) : cuda(cuda) {}
  Status launch(cudaKernel_t kernel, int64_t count, std::vector<void *> buffers,
                std::vector<int64_t> scalars, cudaStream_t stream) const;

  const CudaApi &cuda;
  cudaLibrary_t library = nullptr;
  cudaKernel_t reduceKernel = nullptr, fillKernel = nullptr;
  cudaKernel_t epilogueKernel = nullptr, sumColumnsKernel = nullptr;
  cudaKernel_t findNanKernel = nullptr;
  cudaKernel_t amaxKernel = nullptr, fp8Kernel = nullptr,
               fp8TransposedKernel = nullptr;
};

/// Launches a kernel with the ABI of a plan's.
Status launchKernel(const CudaApi &cuda, cudaKernel_t kernel, dim3 blocks,
                    dim3 threads, size_t sharedBytes,
                    const std::vector<void *> &buffers,
                    const std::vector<int64_t> &scalars, cudaStream_t stream);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICEKERNELS_H
