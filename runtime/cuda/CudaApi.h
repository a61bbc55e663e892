//===- CudaApi.h - the CUDA runtime through pointers ------------*- C++ -*-===//
//
// The CUDA runtime is not linked; it is called through a table. loadCudaApi()
// fills the table from libcudart.so, and tests fill it with fakes. Include this
// header before any header of CUDA: cuda_runtime.h overloads some of the names.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

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

// DPC_POINTERS declares the members of a struct: a pointer to each function of
// a library, find() and link(). find() looks up all functions in `library` and
// returns the name of a missing function, or null. link() uses the functions
// that the program is linked with.
// NOLINTBEGIN(bugprone-macro-parentheses): names are declared
#define DPC_DECLARE(name) decltype(&::name) name = nullptr;
#define DPC_FIND(name)                                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));              \
  if (!name)                                                                   \
    return #name;
#define DPC_LINK(name) this->name = &::name;
#define DPC_POINTERS(FUNCTIONS)                                                \
  FUNCTIONS(DPC_DECLARE)                                                       \
  const char *find(void *library) {                                            \
    FUNCTIONS(DPC_FIND)                                                        \
    return nullptr;                                                            \
  }                                                                            \
  void link() { FUNCTIONS(DPC_LINK) }
// NOLINTEND(bugprone-macro-parentheses)

/// Moves the value of `from` to `target`, or returns the error of `from`.
template <typename T, typename U> Status assign(T &target, Expected<U> from) {
  if (from)
    target = std::move(*from);
  return from.status();
}

struct CudaApi {
  DPC_POINTERS(DPC_CUDA_FUNCTIONS)

  /// Returns success, or the error "WHAT: REASON".
  Status check(cudaError_t error, const char *what) const {
    if (error == cudaSuccess)
      return Status::success();
    return Status(StatusCode::Io,
                  std::string(what) + ": " + cudaGetErrorString(error) +
                      " (CUDA error " + std::to_string(error) + ")");
  }
  Status setDevice(int device) const {
    return check(cudaSetDevice(device), "cudaSetDevice");
  }
  Expected<int> deviceAttribute(cudaDeviceAttr which, int device) const {
    int value = 0;
    DPC_TRY(check(cudaDeviceGetAttribute(&value, which, device),
                  "cudaDeviceGetAttribute"));
    return value;
  }
  /// 10 major + minor.
  Expected<int> computeCapability(int device) const {
    int major = 0, minor = 0;
    DPC_TRY(assign(major,
                   deviceAttribute(cudaDevAttrComputeCapabilityMajor, device)));
    DPC_TRY(assign(minor,
                   deviceAttribute(cudaDevAttrComputeCapabilityMinor, device)));
    return 10 * major + minor;
  }
  Expected<cudaEvent_t>
  newEvent(unsigned flags = cudaEventDisableTiming) const {
    cudaEvent_t event = nullptr;
    DPC_TRY(check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate"));
    return event;
  }
  Status record(cudaEvent_t event, cudaStream_t stream) const {
    return check(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  Status await(cudaEvent_t event, cudaStream_t stream) const {
    return check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  Expected<double> millisecondsBetween(cudaEvent_t begin,
                                       cudaEvent_t end) const {
    float milliseconds = 0;
    DPC_TRY(check(cudaEventElapsedTime(&milliseconds, begin, end),
                  "cudaEventElapsedTime"));
    return static_cast<double>(milliseconds);
  }
  /// Allocates device memory. The message of an error begins with `what`.
  Expected<char *> allocate(int64_t bytes,
                            const char *what = "cudaMalloc") const {
    void *memory = nullptr;
    DPC_TRY(check(cudaMalloc(&memory, static_cast<size_t>(bytes)), what));
    return static_cast<char *>(memory);
  }
  Expected<char *> allocatePinned(int64_t bytes) const {
    void *memory = nullptr;
    DPC_TRY(check(cudaHostAlloc(&memory, static_cast<size_t>(bytes),
                                cudaHostAllocDefault),
                  "cudaHostAlloc"));
    return static_cast<char *>(memory);
  }
  Status copy(void *to, const void *from, int64_t bytes, cudaMemcpyKind kind,
              cudaStream_t stream) const {
    if (bytes == 0)
      return Status::success();
    return check(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream),
        "cudaMemcpyAsync");
  }
  /// Submits an operation to `stream` that sets `bytes` bytes to `byte`.
  Status set(void *to, int byte, int64_t bytes, cudaStream_t stream) const {
    return check(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), stream),
                 "cudaMemsetAsync");
  }
  /// Returns a graph of the work that `issue` submits to `stream`.
  template <typename Issue>
  Expected<cudaGraphExec_t> capture(cudaStream_t stream, Issue &&issue) const {
    DPC_TRY(
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture"));
    Status issued = issue();
    cudaGraph_t made = nullptr;
    cudaError_t ended = cudaStreamEndCapture(stream, &made);
    DPC_TRY(issued);
    DPC_TRY(check(ended, "cudaStreamEndCapture"));
    cudaGraphExec_t graph = nullptr;
    Status status =
        check(cudaGraphInstantiate(&graph, made, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(made);
    DPC_TRY(status);
    return graph;
  }
};

} // namespace dpc::rt
