//===- DeviceBlas.h - matrix products on the device -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_DEVICEBLAS_H
#define DPC_RUNTIME_CUDA_DEVICEBLAS_H

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceKernels.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>
#include <vector>

namespace dpc::rt {

/// A matrix product with the types of its buffers, and where these begin. Those
/// of its epilogue are of C's type.
struct DeviceProduct {
  const MatmulOp *op = nullptr;
  DType aType = DType::F32, bType = DType::F32, cType = DType::F32;
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr, *bias = nullptr, *aux = nullptr;
  void *workspace = nullptr; ///< of fp8
  /// How many bytes behind a multiple of 64 the buffers begin: views may.
  int64_t aBegin = 0, bBegin = 0, cBegin = 0, biasBegin = 0, auxBegin = 0;
};

/// `op` of `plan`, without addresses.
DeviceProduct productIn(const Plan &plan, const MatmulOp &op);

/// All that cuBLASLt's choice of a routine depends on, as a line of text:
/// products of one key can be done by the same routine.
std::string gemmKey(const DeviceProduct &product);

/// Whether a product is of nothing, or sums nothing: it has no routine.
bool isEmpty(const MatmulOp &op);

/// Products of one rank through cuBLASLt, whose matrices are column-major: it
/// is asked for the transpose, C' = B' A'. An epilogue that it has no routine
/// for is a kernel behind the product (`isSplit`). Errors name the product's
/// key. All but checkTypes and run are for products that are not empty.
class DeviceBlas {
public:
  /// Takes 32 MiB of the device for cuBLASLt's workspace. With `tf32` operands
  /// of f32 are rounded to it.
  static Expected<std::unique_ptr<DeviceBlas>> create(const CudaApi &cuda,
                                                      const BlasApi &blas,
                                                      const DeviceKernels &own,
                                                      bool tf32 = false);
  ~DeviceBlas();

  /// Fails when no routine takes the op's types, which are those of the three
  /// buffers: all f32, all f64, or A and B bf16 (f16) and C the same or f32;
  /// for fp8 A and B are bf16.
  static Status checkTypes(const MatmulOp &op, DType a, DType b, DType c);

  /// At most `most` routines, what the heuristic takes for the fastest first.
  Expected<std::vector<cublasLtMatmulAlgo_t>>
  candidates(const DeviceProduct &product, int most);
  /// Whether cuBLASLt says that a routine does the product on this device, and
  /// within the workspace.
  bool accepts(const DeviceProduct &product, const cublasLtMatmulAlgo_t &how);
  /// The routine of run(); else it is the heuristic's first.
  Status choose(const DeviceProduct &product, const cublasLtMatmulAlgo_t &how);

  /// Whether the epilogue of a product is a kernel of the runtime.
  Expected<bool> isSplit(const DeviceProduct &product);
  /// See MatmulOp. Ops outlive this. Where not `codes`, codeFactors has been
  /// called, and neither factor is other since.
  Status run(const DeviceProduct &product, cudaStream_t stream,
             bool codes = true);
  /// Of a product of fp8.
  Status codeFactors(const DeviceProduct &product, cudaStream_t stream) const;

private:
  /// cuBLASLt's words for an op.
  struct Routine {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    bool isChosen = false, isSplit = false;
    cublasLtMatmulAlgo_t how = {};
  };

  DeviceBlas(const CudaApi &cuda, const BlasApi &blas, const DeviceKernels &own,
             bool tf32)
      : cuda(cuda), blas(blas), own(own), tf32(tf32) {}
  Status check(cublasStatus_t status, const char *what) const;
  Expected<Routine *> routine(const DeviceProduct &product);
  Status makeRoutine(const DeviceProduct &product, Routine &made);
  Status multiply(const DeviceProduct &product, cudaStream_t stream,
                  bool codes);
  Status describe(const DeviceProduct &product, Routine &made);
  Status describeEpilogue(const DeviceProduct &product, Routine &made);
  Status pointEpilogue(const DeviceProduct &product, const Routine &made);
  Status finish(const DeviceProduct &product, cudaStream_t stream) const;
  Status describeCodes(const DeviceProduct &product, Routine &made);
  Status pointScales(const DeviceProduct &product, const Routine &made);
  Status scaleOnly(const DeviceProduct &product, cudaStream_t stream) const;
  void forget(Routine &made);
  Expected<std::vector<cublasLtMatmulAlgo_t>>
  heuristic(const DeviceProduct &product, const Routine &made, int most);
  template <typename T>
  Status set(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t which,
             T value, const char *name) const {
    return check(
        blas.cublasLtMatmulDescSetAttribute(
            what, which, static_cast<const void *>(&value), sizeof value),
        name);
  }
  Status setWishes(const DeviceProduct &product,
                   cublasLtMatmulPreference_t wishes);
  Status makeLayout(cublasLtMatrixLayout_t &layout, DType type, int64_t rows,
                    int64_t columns, int64_t ld, int64_t batch, int64_t stride);

  const CudaApi &cuda;
  const BlasApi &blas;
  const DeviceKernels &own;
  bool tf32;
  cublasLtHandle_t handle = nullptr;
  void *workspace = nullptr;
  std::map<const MatmulOp *, Routine> routines;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICEBLAS_H
