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
  // The CUDA toolkit with which the plugin was built.
  paths.push_back(std::string(DPC_CUDA_LIBRARY_DIR) + "/" + name);
  return paths;
}

/// The first version with ncclCommRegister.
static constexpr int kLeastNccl = NCCL_VERSION(2, 19, 0);

/// Returns the reason to reject a library, or "".
using LibraryCheck = std::string (*)(void *handle);

/// Opens the first library on the search path that passes the check. Libraries
/// are never closed, because their threads live as long as the process.
static Expected<void *> openLibrary(const std::string &name,
                                    const std::string &wheel,
                                    LibraryCheck check = nullptr) {
  std::string why;
  for (const std::string &path : librarySearchPaths(name, wheel)) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char *error = handle ? nullptr : dlerror();
    std::string wrong = handle && check ? check(handle) : "";
    if (handle && wrong.empty())
      return handle;
    if (handle)
      dlclose(handle);
    // A rejected library explains the failure better than a missing file.
    if (!wrong.empty())
      why = path + wrong;
    else if (why.empty() && error)
      why = error;
  }
  return Status::unsupported(name + " cannot be loaded (" + why +
                             "); set DPC_CUDA_LIB to its folder");
}

template <typename Api>
static Expected<Api> load(const std::string &file, const std::string &wheel,
                          LibraryCheck check = nullptr) {
  void *library = nullptr;
  DPC_TRY(assign(library, openLibrary(file, wheel, check)));
  Api api;
  if (const char *missing = api.find(library))
    return Status::unsupported(file + " lacks " + missing +
                               ": it is older than this build's CUDA");
  return api;
}

Expected<CudaApi> loadCudaApi() {
  return load<CudaApi>("libcudart.so.13", "cuda_runtime");
}

Expected<BlasApi> loadBlasApi() {
  return load<BlasApi>("libcublasLt.so.13", "cublas");
}

/// "2.19.3" for 21903.
static std::string ncclName(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

static std::string checkNccl(void *library) {
  int version = 0;
  auto ask = reinterpret_cast<decltype(&::ncclGetVersion)>(
      dlsym(library, "ncclGetVersion"));
  if (!ask || ask(&version) != ncclSuccess)
    return " reports no version";
  return version >= kLeastNccl ? ""
                               : " is NCCL " + ncclName(version) + ", and " +
                                     ncclName(kLeastNccl) + " is needed";
}

Expected<NcclApi> loadNcclApi() {
  return load<NcclApi>("libnccl.so.2", "nccl", checkNccl);
}

Expected<void *> openCudnnLibrary() {
  return openLibrary("libcudnn.so.9", "cudnn");
}

#ifdef DPC_HAS_CUDNN_FRONTEND
Expected<std::unique_ptr<DeviceAttention>>
openCudnnAttention(const CudaApi &cuda, int device) {
  void *library = nullptr;
  DPC_TRY(assign(library, openCudnnLibrary()));
  return makeCudnnAttention(cuda, library, device);
}
#else
Expected<std::unique_ptr<DeviceAttention>>
openCudnnAttention(const CudaApi & /*cuda*/, int /*device*/) {
  return Status::unsupported("attention on GPUs needs cuDNN 9 and "
                             "cudnn-frontend; this plugin was built without "
                             "their headers");
}
#endif

#ifdef DPC_HAS_CUDNN
Expected<std::unique_ptr<DeviceConvs>> openCudnn(const CudaApi &cuda) {
  CudnnApi cudnn;
  DPC_TRY(assign(cudnn, load<CudnnApi>("libcudnn.so.9", "cudnn")));
  return makeCudnnConvs(cuda, cudnn);
}
#else
Expected<std::unique_ptr<DeviceConvs>> openCudnn(const CudaApi & /*cuda*/) {
  return Status::unsupported("convolutions on GPUs need cuDNN 9; this plugin "
                             "was built without its headers");
}
#endif

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
