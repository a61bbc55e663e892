//===- CudaApi.h - the CUDA runtime through pointers ------------*- C++ -*-===//
//
// Nothing here links CUDA: the runtime is called through a table, which
// loadCudaApi() fills from libcudart.so and tests fill with a fake. Include
// this header before any header of CUDA: cuda_runtime.h overloads some of the
// names.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_CUDAAPI_H
#define DPC_RUNTIME_CUDA_CUDAAPI_H

#include "runtime/base/Status.h"

#include <cuda_runtime_api.h>

namespace dpc::rt {

#define DPC_CUDA_FUNCTIONS(X)                                                  \
  X(cudaDeviceGetAttribute)                                                    \
  X(cudaDriverGetVersion)                                                      \
  X(cudaEventCreateWithFlags)                                                  \
  X(cudaEventDestroy)                                                          \
  X(cudaEventElapsedTime)                                                      \
  X(cudaEventQuery)                                                            \
  X(cudaEventRecord)                                                           \
  X(cudaFree)                                                                  \
  X(cudaFreeHost)                                                              \
  X(cudaGetDeviceCount)                                                        \
  X(cudaGetDeviceProperties)                                                   \
  X(cudaGetErrorString)                                                        \
  X(cudaGraphDestroy)                                                          \
  X(cudaGraphExecDestroy)                                                      \
  X(cudaGraphInstantiate)                                                      \
  X(cudaGraphLaunch)                                                           \
  X(cudaHostAlloc)                                                             \
  X(cudaKernelSetAttributeForDevice)                                           \
  X(cudaLaunchHostFunc)                                                        \
  X(cudaLaunchKernel)                                                          \
  X(cudaLibraryGetKernel)                                                      \
  X(cudaLibraryLoadData)                                                       \
  X(cudaLibraryUnload)                                                         \
  X(cudaMalloc)                                                                \
  X(cudaMemGetInfo)                                                            \
  X(cudaMemcpyAsync)                                                           \
  X(cudaMemsetAsync)                                                           \
  X(cudaSetDevice)                                                             \
  X(cudaStreamBeginCapture)                                                    \
  X(cudaStreamCreateWithFlags)                                                 \
  X(cudaStreamDestroy)                                                         \
  X(cudaStreamEndCapture)                                                      \
  X(cudaStreamIsCapturing)                                                     \
  X(cudaStreamQuery)                                                           \
  X(cudaStreamWaitEvent)

/// Each member has the name of its function.
struct CudaApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name declared
#define DPC_DECLARE(name) decltype(&::name) name = nullptr;
  DPC_CUDA_FUNCTIONS(DPC_DECLARE)
#undef DPC_DECLARE

  /// The status "WHAT: message of CUDA" for an error.
  Status check(cudaError_t error, const char *what) const {
    if (error == cudaSuccess)
      return Status::success();
    return Status(StatusCode::Io,
                  std::string(what) + ": " + cudaGetErrorString(error) +
                      " (CUDA error " + std::to_string(error) + ")");
  }
  /// Copies `bytes` bytes in the order of the stream.
  Status copy(void *to, const void *from, int64_t bytes, cudaMemcpyKind kind,
              cudaStream_t stream) const {
    if (bytes == 0)
      return Status::success();
    return check(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream),
        "cudaMemcpyAsync");
  }
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDAAPI_H
