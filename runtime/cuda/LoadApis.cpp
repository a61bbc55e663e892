#include "runtime/cuda/LoadApis.h"

#ifdef DPC_HAS_CUDNN
#include "runtime/cuda/CudnnApi.h"
#endif

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>

namespace dpc::rt {

static void addWheels(const std::filesystem::path &root,
                      const std::string &name, const std::string &wheel,
                      std::vector<std::string> &paths) {
  std::error_code none;
  for (const auto &python :
       std::filesystem::directory_iterator(root / "lib", none))
    if (python.path().filename().string().rfind("python3", 0) == 0)
      for (const char *packages : {"site-packages", "dist-packages"})
        for (const std::string &folder : {wheel, std::string("cu13")}) {
          auto path = python.path() / packages / "nvidia" / folder / "lib";
          if (std::filesystem::exists(path / name, none))
            paths.push_back(path / name);
        }
}

std::vector<std::string> librarySearchPaths(const std::string &name,
                                            const std::string &wheel) {
  std::vector<std::string> paths;
  if (const char *folders = std::getenv("DPC_CUDA_LIB")) {
    std::istringstream in(folders);
    for (std::string folder; std::getline(in, folder, ':');)
      if (!folder.empty())
        paths.push_back(folder + "/" + name);
  }
  paths.push_back(name);
  if (const char *environment = std::getenv("VIRTUAL_ENV"))
    addWheels(environment, name, wheel, paths);
  for (const char *root : {"/usr/local", "/usr"})
    addWheels(root, name, wheel, paths);
  return paths;
}

/// Stays open: what it allocates and starts lives as long as the process.
static Expected<void *> openLibrary(const std::string &name,
                                    const std::string &wheel) {
  std::string why;
  for (const std::string &path : librarySearchPaths(name, wheel)) {
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return handle;
    const char *error = dlerror();
    if (why.empty() && error)
      why = error;
  }
  return Status::unsupported(name + " cannot be loaded (" + why +
                             "); DPC_CUDA_LIB may name its folder");
}

template <typename Function>
static bool find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

static Status lacks(const char *library, const char *function) {
  return Status::unsupported(std::string(library) + " lacks " + function +
                             ": it is older than this build's CUDA");
}

#define DPC_FIND(name)                                                         \
  if (!find(*library, #name, api.name))                                        \
    return lacks(file, #name);

Expected<CudaApi> loadCudaApi() {
  const char *file = "libcudart.so.13";
  Expected<void *> library = openLibrary(file, "cuda_runtime");
  if (!library)
    return library.status();
  CudaApi api;
  DPC_CUDA_FUNCTIONS(DPC_FIND)
  return api;
}

Expected<BlasApi> loadBlasApi() {
  const char *file = "libcublasLt.so.13";
  Expected<void *> library = openLibrary(file, "cublas");
  if (!library)
    return library.status();
  BlasApi api;
  DPC_BLAS_FUNCTIONS(DPC_FIND)
  return api;
}

Expected<NcclApi> loadNcclApi() {
  const char *file = "libnccl.so.2";
  Expected<void *> library = openLibrary(file, "nccl");
  if (!library)
    return library.status();
  NcclApi api;
  DPC_NCCL_FUNCTIONS(DPC_FIND)
  int version = 0;
  if (api.ncclGetVersion(&version) != ncclSuccess ||
      version < NCCL_VERSION_CODE)
    return Status::unsupported(std::string(file) + " is version " +
                               std::to_string(version) + ", this build needs " +
                               std::to_string(NCCL_VERSION_CODE) + " or later");
  return api;
}

Expected<void *> openCudnnLibrary() {
  return openLibrary("libcudnn.so.9", "cudnn");
}

#ifdef DPC_HAS_CUDNN_FRONTEND
Expected<std::unique_ptr<DeviceAttention>>
openCudnnAttention(const CudaApi &cuda, int device) {
  Expected<void *> library = openCudnnLibrary();
  if (!library)
    return library.status();
  return makeCudnnAttention(cuda, *library, device);
}
#else
Expected<std::unique_ptr<DeviceAttention>>
openCudnnAttention(const CudaApi & /*cuda*/, int /*device*/) {
  return Status::unsupported("attention on GPUs needs cuDNN 9 and "
                             "cudnn-frontend, without whose headers this "
                             "plugin was built");
}
#endif

#ifdef DPC_HAS_CUDNN
static Expected<CudnnApi> loadCudnnApi() {
  const char *file = "libcudnn.so.9";
  Expected<void *> library = openCudnnLibrary();
  if (!library)
    return library.status();
  CudnnApi api;
  DPC_CUDNN_FUNCTIONS(DPC_FIND)
  return api;
}

Expected<std::unique_ptr<DeviceConvs>> openCudnn(const CudaApi &cuda) {
  Expected<CudnnApi> cudnn = loadCudnnApi();
  if (!cudnn)
    return cudnn.status();
  return makeCudnnConvs(cuda, *cudnn);
}
#else
Expected<std::unique_ptr<DeviceConvs>> openCudnn(const CudaApi & /*cuda*/) {
  return Status::unsupported("convolutions on GPUs need cuDNN 9, without whose "
                             "headers this plugin was built");
}
#endif

#undef DPC_FIND

Expected<int> countDevices(const CudaApi &cuda) {
  int driver = 0, devices = 0;
  cudaError_t error = cuda.cudaDriverGetVersion(&driver);
  if (error == cudaSuccess && driver == 0)
    return Status::unsupported("this machine has no NVIDIA driver");
  if (error == cudaSuccess)
    error = cuda.cudaGetDeviceCount(&devices);
  if (error == cudaErrorInsufficientDriver)
    return Status::unsupported("the NVIDIA driver is missing or older than "
                               "CUDA 13");
  if (error == cudaErrorNoDevice || (error == cudaSuccess && devices == 0))
    return Status::unsupported("this machine has no NVIDIA GPU");
  DPC_TRY(cuda.check(error, "counting GPUs"));
  return devices;
}

} // namespace dpc::rt
