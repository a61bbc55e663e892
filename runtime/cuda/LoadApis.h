//===- LoadApis.h - loading CUDA's libraries --------------------*- C++ -*-===//
//
// A library is searched in the folders of $DPC_CUDA_LIB (separated by ":"), on
// the system's library path, in NVIDIA's Python wheels in $VIRTUAL_ENV and in
// the system's Python, and in the CUDA toolkit of the build, in this order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceCudnn.h"
#include "runtime/cuda/NcclApi.h"

#include <vector>

namespace dpc::rt {

/// Errors name the missing library, or the function that the library lacks.
Expected<CudaApi> loadCudaApi();
Expected<BlasApi> loadBlasApi();
/// Loads the first NCCL library of version 2.19 or later. The build's headers
/// may be of another version, because NCCL ignores the fields of a
/// configuration that its version does not know.
Expected<NcclApi> loadNcclApi();

/// Fails without cuDNN, or if the plugin was built without cuDNN's headers.
Expected<std::unique_ptr<DeviceConvs>> openCudnn(const CudaApi &cuda);

/// Fails without cuDNN, or if the plugin was built without cudnn-frontend.
Expected<std::unique_ptr<DeviceAttention>>
openCudnnAttention(const CudaApi &cuda, int device);
Expected<void *> openCudnnLibrary();

/// Returns the paths to try, in order. `wheel` is the library's folder in
/// NVIDIA's Python wheels.
std::vector<std::string> librarySearchPaths(const std::string &name,
                                            const std::string &wheel);

/// Returns the number of GPUs. Fails if there is no GPU or no driver.
Expected<int> countDevices(const CudaApi &cuda);

} // namespace dpc::rt
