#include "runtime/exec/Device.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace dpc::rt {

static Status wrongBuild(const std::string &file) {
  return Status::unsupported(
      file,
      " belongs to another build of dpc; install both from the same build");
}

Expected<std::unique_ptr<Device>> openDevice(const std::string &file) {
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return Status::unsupported(
        file, " cannot be loaded: ", (why ? why : "no reason given"));
  }
  auto entry = reinterpret_cast<const DevicePlugin *(*)()>(
      dlsym(library, "dpcDevicePlugin"));
  if (!entry)
    return wrongBuild(file);
  const DevicePlugin *plugin = entry();
  if (plugin->version != kDevicePluginVersion ||
      plugin->planVersion != kPlanVersion || plugin->planSize != sizeof(Plan))
    return wrongBuild(file);
  return plugin->open();
}

static constexpr const char *kCudaPlugin = "libdpc_cuda.so";

std::string cudaPluginFile() {
  if (const char *file = std::getenv("DPC_CUDA_PLUGIN"))
    return file;
  std::error_code none;
  auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  auto folder = program.parent_path();
  for (const auto &path :
       {folder.parent_path() / "lib" / kCudaPlugin, folder / kCudaPlugin})
    if (!program.empty() && std::filesystem::exists(path, none))
      return path;
  return "";
}

Expected<std::unique_ptr<Device>> openCudaDevice() {
  std::string file = cudaPluginFile();
  return openDevice(file.empty() ? kCudaPlugin : file);
}

} // namespace dpc::rt
