//===- DeviceBlas.h - GEMMs on the device -----------------------*- C++ -*-===//
#pragma once

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceKernels.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>
#include <vector>

namespace dpc::rt {

/// A GEMM with the types and addresses of its buffers. `bias` and `aux` have
/// C's type.
struct DeviceGemm {
  const MatmulOp *op = nullptr;
  DType aType = DType::F32, bType = DType::F32, cType = DType::F32;
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr, *bias = nullptr, *aux = nullptr;
  void *workspace = nullptr; ///< for fp8
  /// How many bytes after a multiple of 64 each buffer begins.
  int64_t aBegin = 0, bBegin = 0, cBegin = 0, biasBegin = 0, auxBegin = 0;
};

/// Returns the GEMM `op` of `plan`, without addresses.
DeviceGemm gemmIn(const Plan &plan, const MatmulOp &op);

/// Returns all properties that affect cuBLASLt's choice of a routine, as text.
/// GEMMs with equal keys can use the same routine.
std::string gemmKey(const DeviceGemm &gemm);

/// Returns whether a size is 0. Such a GEMM has no routine.
bool isEmpty(const MatmulOp &op);

/// Runs the GEMMs of one rank with cuBLASLt. cuBLASLt's matrices are
/// column-major, so it computes the transpose C' = B' A'. If cuBLASLt cannot
/// compute an epilogue, a separate kernel does so after the GEMM (`isSplit`).
/// Errors contain the GEMM's key. Only checkTypes and run accept empty GEMMs.
class DeviceBlas {
public:
  /// Allocates 32 MiB of device memory for cuBLASLt's workspace. With `tf32`,
  /// f32 operands are rounded to TF32.
  static Expected<std::unique_ptr<DeviceBlas>> create(const CudaApi &cuda,
                                                      const BlasApi &blas,
                                                      const DeviceKernels &own,
                                                      bool tf32 = false);
  ~DeviceBlas();

  /// Fails unless A, B and C are all f32 or all f64, or A and B are both bf16
  /// or both f16 and C has their type or f32. For fp8, A and B are bf16.
  static Status checkTypes(const MatmulOp &op, DType a, DType b, DType c);

  /// Returns at most `most` routines in the order of cuBLASLt's heuristic,
  /// which starts with the routine that it expects to be the fastest.
  Expected<std::vector<cublasLtMatmulAlgo_t>> candidates(const DeviceGemm &gemm,
                                                         int most);
  /// Returns whether the routine can compute the GEMM within the workspace.
  bool accepts(const DeviceGemm &gemm, const cublasLtMatmulAlgo_t &how);
  /// Sets the routine of run(). The default is the heuristic's first routine.
  Status choose(const DeviceGemm &gemm, const cublasLtMatmulAlgo_t &how);
  Status chooseFirst(const DeviceGemm &gemm);

  /// Returns whether a separate kernel computes the epilogue.
  Expected<bool> isSplit(const DeviceGemm &gemm);
  /// Computes a GEMM, see MatmulOp. The op must outlive this object. Without
  /// `codes`, an fp8 GEMM reuses the codes of the last codeFactors() call, so A
  /// and B must be unchanged.
  Status run(const DeviceGemm &gemm, cudaStream_t stream, bool codes = true);
  /// Encodes A and B of an fp8 GEMM.
  Status codeFactors(const DeviceGemm &gemm, cudaStream_t stream) const;

private:
  struct Routine {
    cublasLtMatmulDesc_t what = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    bool isChosen = false, isSplit = false;
    cublasLtMatmulAlgo_t how = {};
  };

  DeviceBlas(const CudaApi &cuda, const BlasApi &blas, const DeviceKernels &own,
             bool tf32)
      : cuda(cuda), blas(blas), own(own), tf32(tf32) {}
  Expected<Routine *> routine(const DeviceGemm &gemm);
  Status makeRoutine(const DeviceGemm &gemm, Routine &made);
  Status multiply(const DeviceGemm &gemm, cudaStream_t stream, bool codes);
  Status describe(const DeviceGemm &gemm, Routine &made);
  Status describeEpilogue(const DeviceGemm &gemm, Routine &made);
  Status pointEpilogue(const DeviceGemm &gemm, const Routine &made);
  Status finish(const DeviceGemm &gemm, cudaStream_t stream) const;
  Status describeCodes(const DeviceGemm &gemm, Routine &made);
  Status pointScales(const DeviceGemm &gemm, const Routine &made);
  void forget(Routine &made);
  Expected<std::vector<cublasLtMatmulAlgo_t>>
  heuristic(const DeviceGemm &gemm, const Routine &made, int most);
  template <typename T>
  Status set(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t which,
             T value, const char *name) const {
    return blas.check(
        blas.cublasLtMatmulDescSetAttribute(
            what, which, static_cast<const void *>(&value), sizeof value),
        name);
  }
  Status setWishes(const DeviceGemm &gemm, cublasLtMatmulPreference_t wishes);
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
