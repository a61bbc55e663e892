//===- DeviceKernels.h - kernels of the runtime -----------------*- C++ -*-===//
#pragma once

#include "runtime/cuda/DeviceComm.h"
#include "runtime/kernels/ExpertMatmul.h"
#include "runtime/plan/Plan.h"

#include <map>

namespace dpc::rt {

/// Kernels that no library provides: sums in the order of the ranks, fills, fp8
/// codes, searches for NaN, products of experts, and epilogues that cuBLASLt
/// lacks. The parameters of a kernel are a pointer for each buffer, then an i64
/// for each scalar.
class DeviceKernels {
public:
  /// `image` is the compiled code of DeviceKernels.cu.
  static Expected<std::unique_ptr<DeviceKernels>> load(const CudaApi &cuda,
                                                       const void *image);
  ~DeviceKernels();

  /// Sets out[i] to the reduction of scale * parts[0][first + i], scale *
  /// parts[1][first + i], ... in this order, for all i < count. There are at
  /// most kMostInProcess parts.
  Status reduce(const std::vector<const void *> &parts, void *out,
                int64_t first, int64_t count, DType type, ReduceKind kind,
                double scale, cudaStream_t stream) const;
  /// Fills `count` elements of `width` bytes (1, 2, 4 or 8) with the low bytes
  /// of `bits`.
  Status fill(void *to, int64_t count, int64_t width, int64_t bits,
              cudaStream_t stream) const;
  /// Applies the epilogue to C, except for column sums.
  Status epilogue(const MatmulOp &op, void *c, void *bias, void *aux,
                  DType type, cudaStream_t stream) const;
  /// Sets to[j] to the sum of column j, added in f32 and in a fixed order.
  Status sumColumns(const void *matrix, DType type, int64_t rows,
                    int64_t columns, int64_t ld, void *to, DType toType,
                    cudaStream_t stream) const;
  /// Sets `flag` to a nonzero int if an element is NaN or, with
  /// `infinitiesToo`, infinite as f32.
  Status findNan(const void *data, DType type, int64_t count,
                 bool infinitiesToo, void *flag, cudaStream_t stream) const;
  /// Sets `bits`, which must be 0, to the largest absolute value of a bf16
  /// matrix, as f32.
  Status amax(const void *matrix, int64_t rows, int64_t columns, int64_t ld,
              void *bits, cudaStream_t stream) const;
  /// Encodes a bf16 matrix (see Fp8Factors) in the dense array `codes`,
  /// transposed if `transposes`. Sets `inverse` to the factor that decodes the
  /// codes. `rows` and `columns` must be multiples of 16.
  Status fp8Codes(const void *matrix, int64_t rows, int64_t columns, int64_t ld,
                  const void *amaxBits, DType format, bool transposes,
                  void *codes, void *inverse, cudaStream_t stream) const;
  /// Computes `op` in a fixed order of sums. The host does not wait for the
  /// ids, and no launch depends on them.
  Status experts(const ExpertMatmulOp &op, const ExpertArrays &arrays,
                 void *workspace, cudaStream_t stream) const;

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
  cudaKernel_t expertOrderKernel = nullptr;
  std::map<DType, cudaKernel_t> expertForward, expertGradient; ///< by compute
};

/// Launches a kernel of a plan or of DeviceKernels.
Status launchKernel(const CudaApi &cuda, cudaKernel_t kernel, dim3 blocks,
                    dim3 threads, size_t sharedBytes,
                    const std::vector<void *> &buffers,
                    const std::vector<int64_t> &scalars, cudaStream_t stream);

} // namespace dpc::rt
