//===- Device.h - devices other than the CPU --------------------*- C++ -*-===//
//
// Code for GPUs is in a plugin, libdpc_cuda.so, so one binary works with and
// without a GPU. The program and the plugin share C++ types, so they must be
// built from the same sources.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_EXEC_DEVICE_H
#define DPC_RUNTIME_EXEC_DEVICE_H

#include "runtime/exec/DeviceProbe.h"
#include "runtime/exec/Executor.h"

namespace dpc::rt {

/// Increase this number if a type that the program and the plugin share
/// changes.
inline constexpr int kDevicePluginVersion = 4;

struct DeviceRequest {
  const Plan *plan = nullptr;
  std::string dir; ///< the plan's folder, for kernels
  /// Whether all ranks are threads of this process and share one device.
  /// Otherwise this process is one rank, and its device is `index`, or the only
  /// visible one.
  bool inProcess = true;
  int index = 0;
  double timeoutSeconds = 300;
  /// Whether to measure the routines of each GEMM before the first step and use
  /// the fastest. The value is equal on all ranks.
  bool measuresGemms = false;
  std::string gemmCache; ///< folder that keeps the measured routines; "": none
  /// Whether f32 GEMMs round their operands to mantissas of 10 bits (TF32).
  bool tf32 = false;
  /// Called from any thread with a remark for the user.
  std::function<void(const std::string &)> remark;
};

class Device {
public:
  virtual ~Device() = default;
  /// Fails if the plan is not for this device. The plan must outlive the
  /// factory.
  virtual Expected<ExecutorFactory> executors(const DeviceRequest &request) = 0;
  /// Makes a probe of device `index` of this machine, or of the only visible
  /// one.
  virtual Expected<std::unique_ptr<DeviceProbe>> probe(int index) = 0;
};

/// The interface of a plugin: `extern "C" const DevicePlugin
/// *dpcDevicePlugin()`. The version numbers come first and never move, because
/// they are read before the other members are trusted.
struct DevicePlugin {
  int version = kDevicePluginVersion;
  int planVersion = kPlanVersion;
  uint64_t planSize = sizeof(Plan);
  /// Fails if a library, the driver or a GPU is missing, and names it.
  Expected<std::unique_ptr<Device>> (*open)() = nullptr;
};

/// Loads the plugin `file` (a path, or a name on the system's library path) and
/// opens its device. Plugins are never unloaded.
Expected<std::unique_ptr<Device>> openDevice(const std::string &file);

/// The path of libdpc_cuda.so: $DPC_CUDA_PLUGIN, the file in ../lib of the
/// program's folder, or the file in the program's folder; "" if there is none.
std::string cudaPluginFile();

/// Opens cudaPluginFile(), or a plugin on the system's library path.
Expected<std::unique_ptr<Device>> openCudaDevice();

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_DEVICE_H
