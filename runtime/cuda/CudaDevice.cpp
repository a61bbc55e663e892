#include "runtime/cuda/CudaDevice.h"

#include "runtime/cuda/CudaExecutor.h"
#include "runtime/plan/PlanJson.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace dpc::rt {

namespace {

/// What the ranks of this process share; the factory and they hold it.
struct Shared {
  explicit Shared(const CudaApis &apis) : apis(apis) {}
  ~Shared() {
    comms.clear();
    own = nullptr;
    if (library)
      apis.cuda.cudaLibraryUnload(library);
  }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;

  CudaApis apis;
  NcclApi nccl;
  DeviceRequest request;
  std::unique_ptr<DeviceKernels> own;
  cudaLibrary_t library = nullptr;
  std::string ptx;
  CudaContext context;
  /// By rank, when all are in this process.
  std::vector<std::unique_ptr<DeviceComm>> comms;
};

Status readKernels(const DeviceRequest &request, std::string &ptx) {
  const Plan &plan = *request.plan;
  std::string path = request.dir + "/kernels/" + plan.kernelFile;
  Expected<std::string> hash = hashFile(path);
  if (!hash)
    return hash.status();
  if (*hash != plan.kernelHash)
    return Status::invalid(path + ": has hash " + *hash + ", plan.json says " +
                           plan.kernelHash +
                           ": it is not the file this plan was written with");
  std::ifstream in(path, std::ios::binary);
  ptx.assign(std::istreambuf_iterator<char>(in), {});
  return Status::success();
}

/// The plan's PTX, which the driver translates for the device that is there.
Status loadKernels(Shared &shared) {
  const Plan &plan = *shared.request.plan;
  const CudaApi &cuda = shared.apis.cuda;
  if (plan.kernelFile.empty())
    return Status::success();
  DPC_TRY(readKernels(shared.request, shared.ptx));
  DPC_TRY(cuda.check(cuda.cudaLibraryLoadData(&shared.library,
                                              shared.ptx.c_str(), nullptr,
                                              nullptr, 0, nullptr, nullptr, 0),
                     plan.kernelFile.c_str()));
  for (const auto &[symbol, launch] : plan.kernelLaunches) {
    DeviceKernel kernel;
    DPC_TRY(cuda.check(cuda.cudaLibraryGetKernel(&kernel.kernel, shared.library,
                                                 symbol.c_str()),
                       symbol.c_str()));
    kernel.blocks = dim3(static_cast<unsigned>(launch.blocks));
    kernel.threads = dim3(static_cast<unsigned>(launch.threads));
    kernel.sharedBytes = static_cast<size_t>(launch.sharedBytes);
    // More than 48 KiB has to be asked for.
    if (launch.sharedBytes > 48 << 10)
      DPC_TRY(cuda.check(
          cuda.cudaKernelSetAttributeForDevice(
              kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
              static_cast<int>(launch.sharedBytes), shared.request.index),
          symbol.c_str()));
    shared.context.kernels[symbol] = kernel;
  }
  return Status::success();
}

class CudaDevice : public Device {
public:
  explicit CudaDevice(const CudaApis &apis) : apis(apis) {}

  Expected<ExecutorFactory> executors(const DeviceRequest &request) override {
    auto shared = std::make_shared<Shared>(apis);
    shared->request = request;
    DPC_TRY(prepare(*shared));
    return ExecutorFactory(
        [shared](Communicator &control, const ExecutorOptions &options)
            -> Expected<std::unique_ptr<Executor>> {
          Expected<std::unique_ptr<DeviceComm>> comm = commOf(*shared, control);
          if (!comm)
            return comm.status();
          return CudaExecutor::create(
              *shared->request.plan,
              std::shared_ptr<const CudaContext>(shared, &shared->context),
              std::move(*comm), options);
        });
  }

private:
  Status prepare(Shared &shared) const {
    const CudaApi &cuda = shared.apis.cuda;
    const DeviceRequest &request = shared.request;
    int devices = 0, major = 0, minor = 0;
    DPC_TRY(cuda.check(cuda.cudaGetDeviceCount(&devices), "counting GPUs"));
    if (request.index >= devices)
      return Status::unsupported(
          "this process needs GPU " + std::to_string(request.index) +
          " of this machine, which has " + std::to_string(devices) +
          "; start one process for each");
    DPC_TRY(cuda.check(cuda.cudaSetDevice(request.index), "cudaSetDevice"));
    for (auto [value, which] :
         {std::pair(&major, cudaDevAttrComputeCapabilityMajor),
          std::pair(&minor, cudaDevAttrComputeCapabilityMinor)})
      DPC_TRY(
          cuda.check(cuda.cudaDeviceGetAttribute(value, which, request.index),
                     "compute capability"));
    DPC_TRY(checkTarget(*request.plan, major, minor));
    if (!request.inProcess) {
      Expected<NcclApi> nccl = shared.apis.loadNccl();
      if (!nccl)
        return nccl.status();
      shared.nccl = *nccl;
    }
    auto own = DeviceKernels::load(cuda, shared.apis.kernels);
    if (!own)
      return own.status();
    shared.own = std::move(*own);
    shared.context.cuda = &shared.apis.cuda;
    shared.context.blas = &shared.apis.blas;
    shared.context.own = shared.own.get();
    shared.context.device = request.index;
    shared.context.graphs = shared.apis.graphs;
    if (request.inProcess)
      shared.comms = makeInProcessComms(cuda, *shared.own,
                                        static_cast<int>(request.plan->ranks()),
                                        request.timeoutSeconds);
    return loadKernels(shared);
  }

  static Expected<std::unique_ptr<DeviceComm>> commOf(Shared &shared,
                                                      Communicator &control) {
    if (shared.request.inProcess)
      return std::move(shared.comms[control.rank()]);
    DPC_TRY(shared.apis.cuda.check(
        shared.apis.cuda.cudaSetDevice(shared.request.index), "cudaSetDevice"));
    return makeNcclComm(shared.apis.cuda, shared.nccl, control,
                        shared.request.timeoutSeconds);
  }

  CudaApis apis;
};

} // namespace

Status checkTarget(const Plan &plan, int major, int minor) {
  bool hasKernels = false;
  for (const auto &[phase, instructions] : plan.phases)
    for (const Instruction &instruction : instructions)
      hasKernels |= std::holds_alternative<KernelOp>(instruction.op);
  if (plan.targetGpu.empty())
    return hasKernels
               ? Status::unsupported("the plan is for CPUs (" + plan.targetCpu +
                                     "); compile it with --target-gpu=sm_" +
                                     std::to_string(major * 10 + minor) +
                                     ", or run it with --device=cpu")
               : Status::success();
  // "sm_90": validated.
  long needed = std::strtol(plan.targetGpu.c_str() + 3, nullptr, 10);
  if (needed <= major * 10 + minor)
    return Status::success();
  return Status::unsupported("the plan is for " + plan.targetGpu +
                             " or later, this GPU is sm_" +
                             std::to_string(major * 10 + minor));
}

std::unique_ptr<Device> makeCudaDevice(const CudaApis &apis) {
  return std::make_unique<CudaDevice>(apis);
}

} // namespace dpc::rt
