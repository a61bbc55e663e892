//===- CudaExecutor.h - runs the steps of one rank on a GPU -----*- C++ -*-===//
//
// One thread submits all tasks to the streams (DeviceStreams.h), in an order
// that MessagePlan.h finds. It waits once, at the end of the step, for the loss
// and other outputs (HostValues.h). The first step is submitted task by task;
// the second is captured as a graph, which all later steps launch.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_CUDAEXECUTOR_H
#define DPC_RUNTIME_CUDA_CUDAEXECUTOR_H

#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/DeviceKernels.h"
#include "runtime/cuda/DeviceStreams.h"
#include "runtime/cuda/DeviceTrace.h"
#include "runtime/cuda/GemmChoices.h"
#include "runtime/cuda/HostValues.h"
#include "runtime/cuda/MessagePlan.h"
#include "runtime/exec/Executor.h"
#include "runtime/io/OffloadFile.h"

#include <deque>
#include <mutex>

namespace dpc::rt {

/// A kernel of a plan and its launch geometry.
struct DeviceKernel {
  cudaKernel_t kernel = nullptr;
  dim3 blocks, threads;
  size_t sharedBytes = 0;
};

/// State that all ranks of a process share; their executors keep it alive.
struct CudaContext {
  CudaApis apis;
  std::unique_ptr<DeviceKernels> own;
  std::map<std::string, DeviceKernel> kernels; ///< of the plan, by symbol
  int device = 0;
  GemmTuning gemms;
  bool tf32 = false; ///< see DeviceRequest
};

/// For ExecutorOptions::checkNumbers, checks for NaN in the results of a
/// stream. Each check waits for the stream, so a checked step is slow and
/// cannot be a graph.
class DeviceNumbers {
public:
  /// The arguments must outlive the object.
  static Expected<std::unique_ptr<DeviceNumbers>>
  create(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm);
  ~DeviceNumbers();

  /// Waits for `stream` and returns whether one of `count` elements is NaN or,
  /// with `infinitiesToo`, infinite as f32.
  Expected<bool> hasNan(const void *data, DType type, int64_t count,
                        cudaStream_t stream, bool infinitiesToo = false) const;

private:
  DeviceNumbers(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm)
      : cuda(cuda), own(own), comm(comm) {}

  const CudaApi &cuda;
  const DeviceKernels &own;
  DeviceComm &comm;
  void *flag = nullptr; ///< 4 bytes on the device: nonzero if one was found
  void *seen = nullptr; ///< pinned copy of `flag`
};

class CudaExecutor : public Executor {
public:
  /// `plan` must outlive the executor. `control` is the host communicator; only
  /// create() uses it.
  static Expected<std::unique_ptr<Executor>>
  create(const Plan &plan, std::shared_ptr<const CudaContext> context,
         std::unique_ptr<DeviceComm> comm, Communicator &control,
         const ExecutorOptions &options);
  ~CudaExecutor() override;

  Status runStep(const StepData &data) override;
  Status fillBuffer(int id, const std::function<Status(char *)> &fill) override;
  Expected<const char *> readBuffer(int id,
                                    std::vector<char> &scratch) override;
  std::vector<TraceLane> traceLanes() const override;
  void forgetTrace() override;
  std::optional<NumberFault> numberFault() const override { return fault; }

private:
  struct Disk;
  /// A transfer between memory and disk, as part of a stream.
  struct DiskMove {
    Disk *disk;
    int64_t offset, bytes;
    bool isWrite;
  };
  /// The state that disk transfers share.
  struct Disk {
    OffloadFile file;
    Pinned bounce;
    std::deque<DiskMove> moves;
    std::mutex mutex; ///< guards `failure`
    Status failure;
  };
  struct OpRunner;

  CudaExecutor(const Plan &plan, std::shared_ptr<const CudaContext> context,
               std::unique_ptr<DeviceComm> comm,
               const ExecutorOptions &options);

  Status setUp(Communicator &control);
  Status makeMemory();
  Status chooseRoutines(Communicator &control);
  Status bindStep();
  Status bindTask(int id);
  void leakResources();
  void fail(const Status &status);

  Status step(const StepData &data);
  Status launchStep();
  Status issueStep();
  Status issueOne(const DeviceStep &step);
  Status issueTask(const Task &task, int id);
  Status issueRound(const DeviceStep &step);
  Status checkTensors();
  Status checkNumbers(const Task &task);
  Status moveNow(const Buffer &buffer, char *host, bool toDevice);

  std::shared_ptr<const CudaContext> held; ///< destroyed last
  const CudaContext &context;
  const CudaApi &cuda;
  std::unique_ptr<DeviceComm> comm;
  ExecutorOptions options;
  unsigned char fillByte; ///< byte that fills unwritten memory
  std::unique_ptr<DeviceBlas> blas;
  std::unique_ptr<DeviceConvs> convs; ///< if the plan has convolutions
  std::unique_ptr<DeviceAttention> attention;

  char *arena = nullptr; ///< device space, then copies of messages
  int64_t arenaBytes = 0;
  std::unique_ptr<PinnedMemory> pinned;
  Pinned hostArena;
  Pinned staging; ///< for moveNow(), allocated on first use
  std::unique_ptr<Disk> disk = std::make_unique<Disk>();
  std::unique_ptr<DeviceStreams> streams;

  DeviceProgram program;
  HostValues values;
  int64_t messages = 0; ///< offset in the arena of the copies of messages
  std::map<int, DiskMove *> diskMoveOf; ///< by task

  std::unique_ptr<DeviceTrace> trace;     ///< with ExecutorOptions::trace
  bool isTraced = false;                  ///< whether this step is traced
  std::unique_ptr<DeviceNumbers> numbers; ///< with checkNumbers
  std::optional<NumberFault> fault;       ///< the first fault of this step
  cudaGraphExec_t graph = nullptr;
  int64_t stepsRun = 0;
};

/// The GEMM of a task, with its addresses in `arena`.
DeviceGemm gemmOf(const Plan &plan, char *arena, const Task &task,
                  const MatmulOp &op);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDAEXECUTOR_H
