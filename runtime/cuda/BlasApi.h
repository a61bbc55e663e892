//===- BlasApi.h - cuBLASLt through pointers --------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_BLASAPI_H
#define DPC_RUNTIME_CUDA_BLASAPI_H

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

/// Each member has the name of its function.
struct BlasApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name declared
#define DPC_DECLARE(name) decltype(&::name) name = nullptr;
  DPC_BLAS_FUNCTIONS(DPC_DECLARE)
#undef DPC_DECLARE
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_BLASAPI_H
