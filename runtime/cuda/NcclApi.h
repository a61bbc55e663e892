//===- NcclApi.h - NCCL through pointers ------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CUDA_NCCLAPI_H
#define DPC_RUNTIME_CUDA_NCCLAPI_H

#include "runtime/cuda/CudaApi.h"

#include <nccl.h>

namespace dpc::rt {

#define DPC_NCCL_FUNCTIONS(X)                                                  \
  X(ncclAllGather)                                                             \
  X(ncclAllReduce)                                                             \
  X(ncclBroadcast)                                                             \
  X(ncclCommAbort)                                                             \
  X(ncclCommDeregister)                                                        \
  X(ncclCommDestroy)                                                           \
  X(ncclCommFinalize)                                                          \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclCommRegister)                                                          \
  X(ncclCommSplit)                                                             \
  X(ncclGetErrorString)                                                        \
  X(ncclGetLastError)                                                          \
  X(ncclGetUniqueId)                                                           \
  X(ncclGetVersion)                                                            \
  X(ncclGroupEnd)                                                              \
  X(ncclGroupStart)                                                            \
  X(ncclMemAlloc)                                                              \
  X(ncclMemFree)                                                               \
  X(ncclRecv)                                                                  \
  X(ncclRedOpCreatePreMulSum)                                                  \
  X(ncclRedOpDestroy)                                                          \
  X(ncclReduceScatter)                                                         \
  X(ncclSend)

/// Each member has the name of its function.
struct NcclApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name declared
#define DPC_DECLARE(name) decltype(&::name) name = nullptr;
  DPC_NCCL_FUNCTIONS(DPC_DECLARE)
#undef DPC_DECLARE
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_NCCLAPI_H
