//===- Device.h - what runs ranks other than the CPU ------------*- C++ -*-===//
//
// GPU code lies in a plugin, libdpc_cuda.so, so that one binary works with and
// without a GPU. The plugin is built from the same sources as the program that
// loads it: they share C++ types, and refuse each other when a version differs.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_EXEC_DEVICE_H
#define DPC_RUNTIME_EXEC_DEVICE_H

#include "runtime/exec/DeviceProbe.h"
#include "runtime/exec/Executor.h"

namespace dpc::rt {

/// Raised with every change of what program and plugin share.
inline constexpr int kDevicePluginVersion = 4;

struct DeviceRequest {
  const Plan *plan = nullptr;
  std::string dir; ///< the plan's folder, for kernels
  /// All ranks are threads of this process, on one device; else this process
  /// is one rank, and its device is `index`, or the only one that it sees.
  bool inProcess = true;
  int index = 0;
  double timeoutSeconds = 300;
  /// Try the routines of a product before the first step, and take the fastest;
  /// the same for all ranks.
  bool measuresGemms = false;
  std::string gemmCache; ///< folder for what was found; "": it is not kept
  /// Products of f32 round their operands to ten bits behind the first.
  bool tf32 = false;
  /// Called, by any thread, with what the user may want to know.
  std::function<void(const std::string &)> remark;
};

class Device {
public:
  virtual ~Device() = default;
  /// Fails when the plan is not for this device. The request's plan outlives
  /// the factory.
  virtual Expected<ExecutorFactory> executors(const DeviceRequest &request) = 0;
  /// Of the device `index` of this machine, or the only one.
  virtual Expected<std::unique_ptr<DeviceProbe>> probe(int index) = 0;
};

/// What a plugin gives: `extern "C" const DevicePlugin *dpcDevicePlugin()`.
/// The numbers come first and stay: they are read before anything is trusted.
struct DevicePlugin {
  int version = kDevicePluginVersion;
  int planVersion = kPlanVersion;
  uint64_t planSize = sizeof(Plan);
  /// Fails with what is missing: a library, the driver, a GPU.
  Expected<std::unique_ptr<Device>> (*open)() = nullptr;
};

/// Loads the plugin `file` (a path, or a name that the system looks for) and
/// opens its device. It is never unloaded.
Expected<std::unique_ptr<Device>> openDevice(const std::string &file);

/// The plugin for GPUs, libdpc_cuda.so: $DPC_CUDA_PLUGIN, or in ../lib of the
/// program's folder, or beside it; "" where it is in none of these.
std::string cudaPluginFile();

/// cudaPluginFile(), or where the system looks.
Expected<std::unique_ptr<Device>> openCudaDevice();

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_DEVICE_H
