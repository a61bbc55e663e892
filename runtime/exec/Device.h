//===- Device.h - devices other than the CPU --------------------*- C++ -*-===//
//
// GPU code lies in a plugin, libdpc_cuda.so, so one binary works with and
// without a GPU. The plugin is built from the same sources as the program that
// loads it. They share C++ types, so each refuses a different version of the
// other.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_EXEC_DEVICE_H
#define DPC_RUNTIME_EXEC_DEVICE_H

#include "runtime/exec/DeviceProbe.h"
#include "runtime/exec/Executor.h"

namespace dpc::rt {

/// Increase this with every change to what the program and the plugin share.
inline constexpr int kDevicePluginVersion = 4;

struct DeviceRequest {
  const Plan *plan = nullptr;
  std::string dir; ///< the plan's folder, for kernels
  /// All ranks are threads of this process on one device. Otherwise this
  /// process is one rank, and its device is `index`, or the only device that it
  /// sees.
  bool inProcess = true;
  int index = 0;
  double timeoutSeconds = 300;
  /// Measures the routines of a GEMM before the first step and uses the
  /// fastest. All ranks have the same value.
  bool measuresGemms = false;
  std::string gemmCache; ///< folder for the measured routines; "": they are not
                         ///< kept
  /// f32 GEMMs round their operands to ten bits after the first.
  bool tf32 = false;
  /// Called by any thread with remarks for the user.
  std::function<void(const std::string &)> remark;
};

class Device {
public:
  virtual ~Device() = default;
  /// Fails when the plan is not for this device. The plan of the request
  /// outlives the factory.
  virtual Expected<ExecutorFactory> executors(const DeviceRequest &request) = 0;
  /// Makes a probe of device `index` of this machine, or of the only one.
  virtual Expected<std::unique_ptr<DeviceProbe>> probe(int index) = 0;
};

/// The interface of a plugin: `extern "C" const DevicePlugin
/// *dpcDevicePlugin()`. The version numbers come first and never move, because
/// they are read before anything else is trusted.
struct DevicePlugin {
  int version = kDevicePluginVersion;
  int planVersion = kPlanVersion;
  uint64_t planSize = sizeof(Plan);
  /// Fails with the name of what is missing: a library, the driver, a GPU.
  Expected<std::unique_ptr<Device>> (*open)() = nullptr;
};

/// Loads the plugin `file` (a path, or a name on the system's library path) and
/// opens its device. The plugin is never unloaded.
Expected<std::unique_ptr<Device>> openDevice(const std::string &file);

/// The file of the plugin for GPUs, libdpc_cuda.so: $DPC_CUDA_PLUGIN, or the
/// file in ../lib of the program's folder, or beside the program; "" if there
/// is none of these.
std::string cudaPluginFile();

/// Opens cudaPluginFile(), or a plugin on the system's library path.
Expected<std::unique_ptr<Device>> openCudaDevice();

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_DEVICE_H
