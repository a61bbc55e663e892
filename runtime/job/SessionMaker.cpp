#include "runtime/job/SessionMaker.h"

#include "runtime/exec/Launch.h"

#include <cstdio>
#include <cstdlib>

namespace dpc {

using namespace rt;

Status SessionMaker::open() {
  if (options.device != "cuda")
    return Status::success();
  DPC_ASSIGN(device, openCudaDevice().in("--device=cuda"));
  return Status::success();
}

Expected<KernelLibrary>
SessionMaker::loadKernels(const Plan &plan, const std::string &dir) const {
  if (device)
    return KernelLibrary();
  return KernelLibrary::load(plan, dir);
}

/// Returns $XDG_CACHE_HOME/dpc or ~/.cache/dpc; "" if neither is set.
static std::string userCache() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') // the specification ignores relative paths
    return std::string(cache) + "/dpc";
  const char *home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/dpc" : "";
}

Expected<std::unique_ptr<Session>>
SessionMaker::make(const Plan &plan, const std::string &dir,
                   const KernelLibrary &kernels,
                   std::vector<std::unique_ptr<Communicator>> comms,
                   const SessionOptions &sessionOptions) const {
  if (!device)
    return Session::create(plan, kernels, std::move(comms), sessionOptions);
  DeviceRequest request;
  request.plan = &plan;
  request.dir = dir;
  request.inProcess = !isDistributed;
  request.index = isDistributed ? detectLaunch().localRank : 0;
  request.timeoutSeconds = options.timeoutSeconds;
  request.tf32 = options.tf32;
  request.measuresGemms = options.gemmCache != "off";
  request.gemmCache =
      options.gemmCache.empty() ? userCache() : options.gemmCache;
  request.remark = [](const std::string &text) {
    std::fprintf(stderr, "dpc-run: warning: %s\n", text.c_str());
  };
  DPC_ASSIGN(ExecutorFactory executors, device->executors(request));
  return Session::create(plan, executors, std::move(comms), sessionOptions);
}

} // namespace dpc
