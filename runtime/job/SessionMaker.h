//===- SessionMaker.h - sessions on CPUs or GPUs ----------------*- C++ -*-===//
#pragma once

#include "runtime/exec/Device.h"
#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Creates the sessions for --plan and --eval-plan on the device of --device. A
/// SessionMaker must outlive its sessions.
class SessionMaker {
public:
  SessionMaker(const RunOptions &options, bool isDistributed)
      : options(options), isDistributed(isDistributed) {}

  /// Opens the device; see DevicePlugin::open.
  Status open();
  bool hasDevice() const { return device != nullptr; }
  /// Loads the kernels of a plan from folder `dir`. Returns an empty library
  /// for a GPU, because its executors load the kernels.
  Expected<rt::KernelLibrary> loadKernels(const rt::Plan &plan,
                                          const std::string &dir) const;
  /// See Session::create(). `plan` and `kernels` must outlive the session.
  Expected<std::unique_ptr<rt::Session>>
  make(const rt::Plan &plan, const std::string &dir,
       const rt::KernelLibrary &kernels,
       std::vector<std::unique_ptr<rt::Communicator>> comms,
       const rt::SessionOptions &sessionOptions) const;

private:
  const RunOptions &options;
  bool isDistributed;
  std::unique_ptr<rt::Device> device; ///< with --device=cuda
};

} // namespace dpc
