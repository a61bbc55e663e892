//===- KernelLibrary.h - the compiled kernels of a plan ---------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace dpc::rt {

/// The entry point of a kernel, see KernelOp.
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars);

class KernelLibrary {
public:
  /// Loads DIR/kernels/<kernelFile>. Fails if the file is for GPUs, has another
  /// hash or lacks a kernel of the plan, or if this machine lacks a required
  /// CPU feature. Returns an empty library for a plan without kernels.
  static Expected<KernelLibrary> load(const Plan &plan, const std::string &dir);

  /// Returns a library of functions of this process, for tests.
  static KernelLibrary of(std::map<std::string, KernelFunction> functions);

  /// Returns null if the library lacks the symbol.
  KernelFunction find(const std::string &symbol) const;

private:
  std::shared_ptr<void> handle;
  std::map<std::string, KernelFunction> functions;
};

/// Checks that `path` has the hash of the plan's kernel file.
Status checkKernelFile(const Plan &plan, const std::string &path);

/// Returns whether `cpuFlags`, as in /proc/cpuinfo, contain `feature`, which is
/// a name of LLVM.
bool hasCpuFeature(const std::string &feature, const std::string &cpuFlags);

/// Returns this machine's CPU flags from /proc/cpuinfo.
std::string cpuFlags();

/// Fails with Unsupported if this machine lacks a required CPU feature.
Status checkCpu(const Plan &plan);

} // namespace dpc::rt
