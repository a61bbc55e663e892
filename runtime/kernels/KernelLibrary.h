//===- KernelLibrary.h - compiled kernels of a plan -------------*- C++ -*-===//
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

/// The functions behind a plan's kernel symbols.
class KernelLibrary {
public:
  /// Loads DIR/kernels/<kernelFile>, after checking that it is for CPUs, its
  /// hash and that this machine has the features it was compiled for, and finds
  /// every symbol the plan uses. A plan without kernels gives an empty library.
  static Expected<KernelLibrary> load(const Plan &plan, const std::string &dir);

  /// Functions of this process, for plans that are built in tests.
  static KernelLibrary of(std::map<std::string, KernelFunction> functions);

  /// nullptr when the symbol is not here.
  KernelFunction find(const std::string &symbol) const;

private:
  std::shared_ptr<void> handle;
  std::map<std::string, KernelFunction> functions;
};

/// Whether `path` is the file of kernels that the plan was written with.
Status checkKernelFile(const Plan &plan, const std::string &path);

/// Whether this machine has `feature` (LLVM's name). `cpuFlags` are the flags
/// of /proc/cpuinfo, separated by spaces.
bool hasCpuFeature(const std::string &feature, const std::string &cpuFlags);

/// Flags of this machine as in /proc/cpuinfo.
std::string cpuFlags();

/// Fails with Unsupported, naming the first feature that this machine lacks.
Status checkCpu(const Plan &plan);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_KERNELLIBRARY_H
