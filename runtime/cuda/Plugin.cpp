//===- Plugin.cpp - the entry of libdpc_cuda.so ---------------------------===//
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/LoadApis.h"

// Embeds the compiled DeviceKernels.cu.
asm(".section .rodata\n"
    ".balign 64\n"
    "dpcDeviceKernelImage:\n"
    ".incbin \"" DPC_KERNEL_IMAGE "\"\n"
    ".byte 0\n"
    ".previous\n");
extern "C" const char dpcDeviceKernelImage[];

namespace dpc::rt {

static Expected<std::unique_ptr<Device>> openCuda() {
  CudaApis apis;
  DPC_TRY(assign(apis.cuda, loadCudaApi()));
  if (Expected<int> devices = countDevices(apis.cuda); !devices)
    return devices.status();
  DPC_TRY(assign(apis.blas, loadBlasApi()));
  apis.loadNccl = loadNcclApi;
  apis.openConvs = openCudnn;
  apis.openAttention = openCudnnAttention;
  apis.kernels = dpcDeviceKernelImage;
  return makeCudaDevice(apis);
}

} // namespace dpc::rt

extern "C" __attribute__((visibility("default"))) const dpc::rt::DevicePlugin *
dpcDevicePlugin() {
  static const dpc::rt::DevicePlugin plugin = [] {
    dpc::rt::DevicePlugin made;
    made.open = dpc::rt::openCuda;
    return made;
  }();
  return &plugin;
}
