//===- LoadApis.h - loading CUDA's libraries --------------------*- C++ -*-===//
//
// A library is searched in the folders of $DPC_CUDA_LIB (separated by ":"),
// then on the system's library path, then in the folders of NVIDIA's Python
// wheels under $VIRTUAL_ENV and the system's Python.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_LOADAPIS_H
#define DPC_RUNTIME_CUDA_LOADAPIS_H

#include "runtime/cuda/BlasApi.h"
#include "runtime/cuda/DeviceCudnn.h"
#include "runtime/cuda/NcclApi.h"

#include <vector>

namespace dpc::rt {

/// If it fails, the error names the missing library, or the function that the
/// library lacks.
Expected<CudaApi> loadCudaApi();
Expected<BlasApi> loadBlasApi();
/// Loads the first NCCL library of version 2.19 or later. The version may
/// differ from that of the headers in the build: NCCL reads only those fields
/// of a configuration that its version knows.
Expected<NcclApi> loadNcclApi();

/// Opens convolutions through cuDNN. Fails if cuDNN is missing, and in a build
/// without its headers.
Expected<std::unique_ptr<DeviceConvs>> openCudnn(const CudaApi &cuda);

/// Opens attention through cuDNN. Fails if cuDNN is missing, and in a build
/// without cudnn-frontend.
Expected<std::unique_ptr<DeviceAttention>>
openCudnnAttention(const CudaApi &cuda, int device);
/// Returns the handle of cuDNN's library.
Expected<void *> openCudnnLibrary();

/// The paths to try, in order, for library `name`, which NVIDIA's wheels keep
/// in folder `wheel`.
std::vector<std::string> librarySearchPaths(const std::string &name,
                                            const std::string &wheel);

/// The number of GPUs; fails with a message when there is no GPU or no driver.
Expected<int> countDevices(const CudaApi &cuda);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_LOADAPIS_H
