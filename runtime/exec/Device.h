//===- Device.h - devices other than the CPU --------------------*- C++ -*-===//
//
// Code for GPUs is in a plugin, libdpc_cuda.so, so that one program works with
// and without a GPU. The program and the plugin share C++ types, so they must
// be built from the same sources.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/DeviceProbe.h"
#include "runtime/exec/Executor.h"

namespace dpc::rt {

/// Must increase when a type that the program and the plugin share changes.
inline constexpr int kDevicePluginVersion = 4;

struct DeviceRequest {
  const Plan *plan = nullptr;
  std::string dir; ///< folder of the plan and its kernels
  /// If true, all ranks are threads of this process and share one device. If
  /// false, this process is one rank, and its device is `index`, or the only
  /// visible device.
  bool inProcess = true;
  int index = 0;
  double timeoutSeconds = 300;
  /// Whether to measure all library routines for each GEMM before the first
  /// step and to use the fastest. Equal on all ranks.
  bool measuresGemms = false;
  std::string gemmCache; ///< folder that keeps the measured routines; "": none
  /// Whether f32 GEMMs use TF32: operands are rounded to 10 bits of mantissa.
  bool tf32 = false;
  /// Receives remarks for the user, from any thread.
  std::function<void(const std::string &)> remark;
};

class Device {
public:
  virtual ~Device() = default;
  /// Fails for a plan for a different device. The plan must outlive the result.
  virtual Expected<ExecutorFactory> executors(const DeviceRequest &request) = 0;
  /// Returns a probe of device `index`, or of the only visible device.
  virtual Expected<std::unique_ptr<DeviceProbe>> probe(int index) = 0;
};

/// A plugin exports `extern "C" const DevicePlugin *dpcDevicePlugin()`. The
/// first three members keep their places in all versions, because the program
/// reads them to check whether it can use the plugin.
struct DevicePlugin {
  int version = kDevicePluginVersion;
  int planVersion = kPlanVersion;
  uint64_t planSize = sizeof(Plan);
  /// Fails with the name of a missing library, driver or GPU.
  Expected<std::unique_ptr<Device>> (*open)() = nullptr;
};

/// Loads a plugin and opens its device. `file` is a path, or a name on the
/// library path of the system. Plugins are never unloaded.
Expected<std::unique_ptr<Device>> openDevice(const std::string &file);

/// Returns $DPC_CUDA_PLUGIN, or the path of libdpc_cuda.so in ../lib of the
/// program's folder or in the program's folder, or "" if there is no plugin.
std::string cudaPluginFile();

/// Opens the plugin cudaPluginFile(), or one on the library path of the system.
Expected<std::unique_ptr<Device>> openCudaDevice();

} // namespace dpc::rt
