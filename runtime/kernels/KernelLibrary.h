//===- KernelLibrary.h - the compiled kernels of a plan ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_KERNELLIBRARY_H
#define DPC_RUNTIME_KERNELS_KERNELLIBRARY_H

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace dpc::rt {

/// A kernel's entry point; see KernelOp.
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars);

/// Finds the functions of a plan's kernels by symbol.
class KernelLibrary {
public:
  /// Loads DIR/kernels/<kernelFile> and finds all symbols of the plan. Fails if
  /// the kernels are for GPUs, the hash differs, or this machine lacks a
  /// required CPU feature. The library of a plan without kernels is empty.
  static Expected<KernelLibrary> load(const Plan &plan, const std::string &dir);

  /// A library of functions of this process, for tests.
  static KernelLibrary of(std::map<std::string, KernelFunction> functions);

  /// Null if the library lacks the symbol.
  KernelFunction find(const std::string &symbol) const;

private:
  std::shared_ptr<void> handle;
  std::map<std::string, KernelFunction> functions;
};

/// Checks that `path` is the kernel file of the plan, by its hash.
Status checkKernelFile(const Plan &plan, const std::string &path);

/// Whether this machine has `feature` (LLVM's name). `cpuFlags` are the flags
/// of /proc/cpuinfo, separated by spaces.
bool hasCpuFeature(const std::string &feature, const std::string &cpuFlags);

/// The CPU flags of this machine as in /proc/cpuinfo.
std::string cpuFlags();

/// Fails with Unsupported and names the first required feature that this
/// machine lacks.
Status checkCpu(const Plan &plan);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_KERNELLIBRARY_H
