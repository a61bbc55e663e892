//===- DeviceBlas.h - matrix products on the device -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICEBLAS_H
#define DPC_RUNTIME_CUDA_DEVICEBLAS_H

#include "runtime/cuda/BlasApi.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>
#include <vector>

namespace dpc::rt {

/// A matrix product with the types of its three buffers, and where these begin.
struct DeviceProduct {
  const MatmulOp *op = nullptr;
  DType aType = DType::F32, bType = DType::F32, cType = DType::F32;
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr;
};

/// All that cuBLASLt's choice of a routine depends on, as a line of text:
/// products of one key can be done by the same routine.
std::string gemmKey(const DeviceProduct &product);

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

  /// At most `most` routines, what the heuristic takes for the fastest first.
  Expected<std::vector<cublasLtMatmulAlgo_t>>
  candidates(const DeviceProduct &product, int most);
  /// Whether cuBLASLt says that a routine does the product on this device, and
  /// within the workspace.
  bool accepts(const DeviceProduct &product, const cublasLtMatmulAlgo_t &how);
  /// The routine of run(); else it is the heuristic's first.
  Status choose(const DeviceProduct &product, const cublasLtMatmulAlgo_t &how);

  /// See MatmulOp. Ops outlive this.
  Status run(const DeviceProduct &product, cudaStream_t stream);

private:
  /// cuBLASLt's words for an op.
  struct Routine {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    bool isChosen = false;
    cublasLtMatmulAlgo_t how = {};
  };

  DeviceBlas(const CudaApi &cuda, const BlasApi &blas)
      : cuda(cuda), blas(blas) {}
  Status check(cublasStatus_t status, const char *what) const;
  Expected<Routine *> routine(const DeviceProduct &product);
  Status describe(const DeviceProduct &product, Routine &made);
  Status setWishes(const DeviceProduct &product,
                   cublasLtMatmulPreference_t wishes);
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
