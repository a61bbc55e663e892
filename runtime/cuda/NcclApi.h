//===- NcclApi.h - NCCL through pointers ------------------------*- C++ -*-===//
#pragma once

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

struct NcclApi {
  DPC_POINTERS(DPC_NCCL_FUNCTIONS)

  /// Returns success, also if the call is in progress, or the error "WHAT:
  /// NCCL: REASON". `comm` may be null.
  Status check(ncclResult_t result, ncclComm_t comm, const char *what) const {
    if (result == ncclSuccess || result == ncclInProgress)
      return Status::success();
    std::string text =
        std::string(what) + ": NCCL: " + ncclGetErrorString(result);
    if (const char *last = ncclGetLastError(comm); last && *last)
      text += std::string(" (") + last + ")";
    return Status::io(text);
  }
};

} // namespace dpc::rt
