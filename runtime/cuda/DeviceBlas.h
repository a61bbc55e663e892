//===- DeviceBlas.h - matrix products on the device -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICEBLAS_H
#define DPC_RUNTIME_CUDA_DEVICEBLAS_H

#include "runtime/cuda/BlasApi.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>

namespace dpc::rt {

/// Products of one rank through cuBLASLt, whose matrices are column-major: it
/// is asked for the transpose, C' = B' A'.
class DeviceBlas {
public:
  /// Takes 32 MiB of the device for cuBLASLt's workspace.
  static Expected<std::unique_ptr<DeviceBlas>> create(const CudaApi &cuda,
                                                      const BlasApi &blas);
  ~DeviceBlas();

  /// Fails when no routine takes the op's types, which are those of the three
  /// buffers: all f32, all f64, or A and B bf16 (f16) and C the same or f32.
  static Status checkTypes(const MatmulOp &op, DType a, DType b, DType c);
  /// See MatmulOp; a, b and c are where the buffers begin. `op` outlives this.
  Status run(const MatmulOp &op, const void *a, DType aType, const void *b,
             DType bType, void *c, DType cType, cudaStream_t stream);

private:
  /// cuBLASLt's words for an op.
  struct Routine {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t how = {};
  };

  DeviceBlas(const CudaApi &cuda, const BlasApi &blas)
      : cuda(cuda), blas(blas) {}
  Status check(cublasStatus_t status, const char *what) const;
  Expected<const Routine *> routine(const MatmulOp &op, DType aType,
                                    DType bType, DType cType);
  Status describe(const MatmulOp &op, DType aType, DType bType, DType cType,
                  Routine &made);
  /// a, b, c: the alignments of the op's matrices.
  Status chooseAlgorithm(Routine &made, uint32_t a, uint32_t b, uint32_t c);
  Status makeLayout(cublasLtMatrixLayout_t &layout, DType type, int64_t rows,
                    int64_t columns, int64_t ld, int64_t batch, int64_t stride);

  const CudaApi &cuda;
  const BlasApi &blas;
  cublasLtHandle_t handle = nullptr;
  void *workspace = nullptr;
  std::map<const MatmulOp *, Routine> routines;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICEBLAS_H
