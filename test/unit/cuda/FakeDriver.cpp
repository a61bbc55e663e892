//===- FakeDriver.cpp - libcuda.so.1 without a GPU ------------------------===//
//
// cuDNN compiles its kernels without a GPU, but loads them through the driver.
// In this driver, loading succeeds and all other calls fail.
//
//===----------------------------------------------------------------------===//
#include <cstddef>
#include <cstdint>

namespace {
constexpr int kNoDevice = 100; // CUDA_ERROR_NO_DEVICE
} // namespace

#define DPC_NOT_DONE(X)                                                        \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetDevice)                                                            \
  X(cuCtxGetLimit)                                                             \
  X(cuCtxPopCurrent)                                                           \
  X(cuCtxPushCurrent)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetAttribute)                                                      \
  X(cuDeviceGetCount)                                                          \
  X(cuDevicePrimaryCtxRelease)                                                 \
  X(cuDevicePrimaryCtxReset)                                                   \
  X(cuDevicePrimaryCtxRetain)                                                  \
  X(cuDriverGetVersion)                                                        \
  X(cuFuncGetAttribute)                                                        \
  X(cuFuncSetAttribute)                                                        \
  X(cuGetErrorName)                                                            \
  X(cuInit)                                                                    \
  X(cuKernelGetAttribute)                                                      \
  X(cuKernelGetFunction)                                                       \
  X(cuKernelSetAttribute)                                                      \
  X(cuLaunchCooperativeKernel)                                                 \
  X(cuLaunchKernel)                                                            \
  X(cuLaunchKernelEx)                                                          \
  X(cuLibraryGetGlobal)                                                        \
  X(cuLibraryGetModule)                                                        \
  X(cuLibraryLoadFromFile)                                                     \
  X(cuLinkAddData)                                                             \
  X(cuLinkAddData_v2)                                                          \
  X(cuLinkAddFile_v2)                                                          \
  X(cuLinkComplete)                                                            \
  X(cuLinkCreate)                                                              \
  X(cuLinkCreate_v2)                                                           \
  X(cuLinkDestroy)                                                             \
  X(cuMemcpyDtoH_v2)                                                           \
  X(cuModuleGetFunction)                                                       \
  X(cuModuleGetGlobal_v2)                                                      \
  X(cuModuleLoadData)                                                          \
  X(cuModuleLoadDataEx)                                                        \
  X(cuModuleLoadFatBinary)                                                     \
  X(cuModuleUnload)                                                            \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                               \
  X(cuOccupancyMaxPotentialClusterSize)                                        \
  X(cuStreamGetCtx)                                                            \
  X(cuStreamSynchronize)                                                       \
  X(cuTensorMapEncodeTiled)

// NOLINTBEGIN(readability-identifier-naming): the driver's names
extern "C" {

#define DPC_DEFINE(name)                                                       \
  int name() { return kNoDevice; }
DPC_NOT_DONE(DPC_DEFINE)

int cuGetErrorString(int, const char **text) {
  *text = "there is no device";
  return 0;
}
int cuLibraryLoadData(void **library) {
  *library = reinterpret_cast<void *>(uintptr_t(64));
  return 0;
}
int cuLibraryGetKernel(void **kernel) {
  *kernel = reinterpret_cast<void *>(uintptr_t(64));
  return 0;
}
int cuLibraryUnload(void *) { return 0; }
}
// NOLINTEND(readability-identifier-naming)
