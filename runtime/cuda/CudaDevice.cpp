#include "runtime/cuda/CudaDevice.h"

#include "runtime/base/OneLine.h"
#include "runtime/cuda/CudaExecutor.h"
#include "runtime/cuda/CudaProbe.h"
#include "runtime/kernels/KernelLibrary.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace dpc::rt {

namespace {

/// The state that all ranks in this process share.
struct ProcessRanks {
  explicit ProcessRanks(const CudaApis &apis) { context.apis = apis; }
  ~ProcessRanks() {
    comms.clear();
    context.own = nullptr;
    if (loaded)
      context.apis.cuda.cudaLibraryUnload(loaded);
  }
  ProcessRanks(const ProcessRanks &) = delete;
  ProcessRanks &operator=(const ProcessRanks &) = delete;

  CudaContext context;
  NcclApi nccl;
  DeviceRequest request;
  cudaLibrary_t loaded = nullptr;
  std::string ptx;
  /// One for each rank if all ranks are in this process; otherwise empty.
  std::vector<std::unique_ptr<DeviceComm>> comms;
};

Status readKernels(const DeviceRequest &request, std::string &ptx) {
  const Plan &plan = *request.plan;
  std::string path = request.dir + "/kernels/" + plan.kernelFile;
  DPC_TRY(checkKernelFile(plan, path));
  std::ifstream in(path, std::ios::binary);
  ptx.assign(std::istreambuf_iterator<char>(in), {});
  return Status::success();
}

/// Loads the plan's PTX, which the driver compiles for this device.
Status loadKernels(ProcessRanks &ranks) {
  const Plan &plan = *ranks.request.plan;
  const CudaApi &cuda = ranks.context.apis.cuda;
  if (plan.kernelFile.empty())
    return Status::success();
  DPC_TRY(readKernels(ranks.request, ranks.ptx));
  DPC_TRY(cuda.check(cuda.cudaLibraryLoadData(&ranks.loaded, ranks.ptx.c_str(),
                                              nullptr, nullptr, 0, nullptr,
                                              nullptr, 0),
                     plan.kernelFile.c_str()));
  for (const auto &[symbol, launch] : plan.kernelLaunches) {
    DeviceKernel kernel;
    DPC_TRY(cuda.check(
        cuda.cudaLibraryGetKernel(&kernel.kernel, ranks.loaded, symbol.c_str()),
        symbol.c_str()));
    kernel.blocks = dim3(static_cast<unsigned>(launch.blocks));
    kernel.threads = dim3(static_cast<unsigned>(launch.threads));
    kernel.sharedBytes = static_cast<size_t>(launch.sharedBytes);
    // CUDA requires this attribute for more than 48 KiB of shared memory.
    if (launch.sharedBytes > 48 << 10)
      DPC_TRY(cuda.check(
          cuda.cudaKernelSetAttributeForDevice(
              kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
              static_cast<int>(launch.sharedBytes), ranks.request.index),
          symbol.c_str()));
    ranks.context.kernels[symbol] = kernel;
  }
  return Status::success();
}

class CudaDevice : public Device {
public:
  explicit CudaDevice(const CudaApis &apis) : apis(apis) {}

  Expected<ExecutorFactory> executors(const DeviceRequest &request) override {
    auto ranks = std::make_shared<ProcessRanks>(apis);
    ranks->request = request;
    DPC_TRY(assign(ranks->request.index, ownDevice(request.index)));
    DPC_TRY(prepare(*ranks));
    return ExecutorFactory(
        [ranks](Communicator &control, const ExecutorOptions &options)
            -> Expected<std::unique_ptr<Executor>> {
          Expected<std::unique_ptr<DeviceComm>> comm = commOf(*ranks, control);
          if (!comm)
            return comm.status();
          return CudaExecutor::create(
              *ranks->request.plan,
              std::shared_ptr<const CudaContext>(ranks, &ranks->context),
              std::move(*comm), control, options);
        });
  }

  Expected<std::unique_ptr<DeviceProbe>> probe(int index) override {
    DPC_TRY(assign(index, ownDevice(index)));
    return makeCudaProbe(apis, index);
  }

private:
  /// 0 if the process sees only one GPU, because a launcher may hide others.
  Expected<int> ownDevice(int index) const {
    int devices = 0;
    DPC_TRY(apis.cuda.check(apis.cuda.cudaGetDeviceCount(&devices),
                            "counting GPUs"));
    if (devices == 1)
      return 0;
    return index < devices
               ? Expected<int>(index)
               : Status::unsupported("this process needs GPU " +
                                     std::to_string(index) +
                                     " of this machine but sees only " +
                                     std::to_string(devices) +
                                     "; start one process for each GPU");
  }

  Status prepare(ProcessRanks &ranks) const {
    const CudaApi &cuda = ranks.context.apis.cuda;
    const DeviceRequest &request = ranks.request;
    int capability = 0;
    DPC_TRY(cuda.setDevice(request.index));
    DPC_TRY(assign(capability, cuda.computeCapability(request.index)));
    DPC_TRY(checkTarget(*request.plan, capability));
    if (!request.inProcess) {
      DPC_TRY(assign(ranks.nccl, ranks.context.apis.loadNccl()));
    }
    DPC_TRY(assign(ranks.context.own,
                   DeviceKernels::load(cuda, ranks.context.apis.kernels)));
    ranks.context.device = request.index;
    DPC_TRY(setTuning(ranks, capability));
    if (request.inProcess)
      ranks.comms = makeInProcessComms(cuda, *ranks.context.own,
                                       static_cast<int>(request.plan->ranks()),
                                       request.timeoutSeconds);
    return loadKernels(ranks);
  }

  /// All ranks wait for one that measures, so it may use 1/4 of the timeout.
  static Status setTuning(ProcessRanks &ranks, int capability) {
    const DeviceRequest &request = ranks.request;
    GemmTuning &tuning = ranks.context.gemms;
    cudaDeviceProp properties = {};
    DPC_TRY(ranks.context.apis.cuda.check(
        ranks.context.apis.cuda.cudaGetDeviceProperties(&properties,
                                                        request.index),
        "cudaGetDeviceProperties"));
    properties.name[sizeof properties.name - 1] = 0;
    ranks.context.tf32 = request.tf32;
    tuning.measures = request.measuresGemms;
    tuning.folder = request.gemmCache;
    tuning.device =
        oneLine(properties.name) + ", sm_" + std::to_string(capability) +
        ", cuBLASLt " +
        std::to_string(ranks.context.apis.blas.cublasLtGetVersion()) +
        (request.tf32 ? ", f32 by tf32" : "");
    tuning.mostSeconds = std::min(60.0, request.timeoutSeconds / 4);
    tuning.remark = request.remark;
    return Status::success();
  }

  static Expected<std::unique_ptr<DeviceComm>> commOf(ProcessRanks &ranks,
                                                      Communicator &control) {
    if (ranks.request.inProcess)
      return std::move(ranks.comms[control.rank()]);
    DPC_TRY(ranks.context.apis.cuda.setDevice(ranks.request.index));
    return makeNcclComm(ranks.context.apis.cuda, ranks.nccl, control,
                        ranks.request.timeoutSeconds);
  }

  CudaApis apis;
};

} // namespace

Status checkTarget(const Plan &plan, int capability) {
  bool hasKernels = false;
  for (const auto &[phase, instructions] : plan.phases)
    for (const Instruction &instruction : instructions)
      hasKernels |= std::holds_alternative<KernelOp>(instruction.op);
  if (hasFp8(plan) && capability < kFirstWithFp8)
    return Status::unsupported(
        "the plan has fp8 GEMMs, which sm_" + std::to_string(kFirstWithFp8) +
        " and later support; this GPU is sm_" + std::to_string(capability) +
        ", for which a plan of --precision=bf16 is accepted");
  if (plan.targetGpu.empty())
    return hasKernels
               ? Status::unsupported("the plan is for CPUs (" + plan.targetCpu +
                                     "); compile it with --target-gpu=sm_" +
                                     std::to_string(capability) +
                                     ", or run it with --device=cpu")
               : Status::success();
  // The validator ensures a name like "sm_90".
  long needed = std::strtol(plan.targetGpu.c_str() + 3, nullptr, 10);
  if (needed <= capability)
    return Status::success();
  return Status::unsupported("the plan is for " + plan.targetGpu +
                             " or later, this GPU is sm_" +
                             std::to_string(capability));
}

std::unique_ptr<Device> makeCudaDevice(const CudaApis &apis) {
  return std::make_unique<CudaDevice>(apis);
}

} // namespace dpc::rt
