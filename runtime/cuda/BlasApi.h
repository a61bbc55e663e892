//===- BlasApi.h - cuBLASLt through pointers --------------------*- C++ -*-===//
#pragma once

#include "runtime/cuda/CudaApi.h"

#include <cublasLt.h>

namespace dpc::rt {

#define DPC_BLAS_FUNCTIONS(X)                                                  \
  X(cublasLtCreate)                                                            \
  X(cublasLtDestroy)                                                           \
  X(cublasLtGetStatusString)                                                   \
  X(cublasLtGetVersion)                                                        \
  X(cublasLtMatmul)                                                            \
  X(cublasLtMatmulAlgoCheck)                                                   \
  X(cublasLtMatmulAlgoGetHeuristic)                                            \
  X(cublasLtMatmulDescCreate)                                                  \
  X(cublasLtMatmulDescDestroy)                                                 \
  X(cublasLtMatmulDescSetAttribute)                                            \
  X(cublasLtMatmulPreferenceCreate)                                            \
  X(cublasLtMatmulPreferenceDestroy)                                           \
  X(cublasLtMatmulPreferenceSetAttribute)                                      \
  X(cublasLtMatrixLayoutCreate)                                                \
  X(cublasLtMatrixLayoutDestroy)                                               \
  X(cublasLtMatrixLayoutSetAttribute)

struct BlasApi {
  DPC_POINTERS(DPC_BLAS_FUNCTIONS)

  /// Returns success, or the error "WHAT: cuBLASLt: REASON".
  Status check(cublasStatus_t status, const char *what) const {
    if (status == CUBLAS_STATUS_SUCCESS)
      return Status::success();
    return Status::io(std::string(what) +
                      ": cuBLASLt: " + cublasLtGetStatusString(status));
  }
};

} // namespace dpc::rt
