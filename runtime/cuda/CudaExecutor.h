//===- CudaExecutor.h - runs the steps of one rank on a GPU -----*- C++ -*-===//
//
// The plan's three queues are three streams; each signal of a plan's event has
// its own CUDA event. One thread submits all tasks to the streams, in an order
// that MessagePlan.h finds. It waits once, at the end of the step, for the loss
// and other outputs. The first step is submitted task by task; the second is
// captured as a graph, which all later steps launch.
//
// Inputs, scalars and outputs of a step lie in pinned memory at fixed
// addresses, so that the graph can use them in every step.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_CUDAEXECUTOR_H
#define DPC_RUNTIME_CUDA_CUDAEXECUTOR_H

#include "runtime/cuda/DeviceAttention.h"
#include "runtime/cuda/DeviceConvs.h"
#include "runtime/cuda/DeviceKernels.h"
#include "runtime/cuda/DeviceNumbers.h"
#include "runtime/cuda/DeviceTrace.h"
#include "runtime/cuda/GemmChoices.h"
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
  const CudaApi *cuda = nullptr;
  const BlasApi *blas = nullptr;
  const DeviceKernels *own = nullptr;
  OpenConvs openConvs = nullptr;
  OpenAttention openAttention = nullptr;
  std::map<std::string, DeviceKernel> kernels; ///< of the plan, by symbol
  int device = 0;
  bool graphs = true; ///< capture steps where the communicator allows it
  GemmTuning gemms;
  bool tf32 = false; ///< see DeviceRequest
};

class CudaExecutor : public Executor {
public:
  /// `plan` outlives the executor. `control` is the host communicator, used
  /// only during creation.
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
  /// A range of pinned memory.
  struct Pinned {
    char *data = nullptr;
    int64_t bytes = 0;
  };
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
  Status clearArena();
  Status chooseRoutines(Communicator &control);
  Status remarkSplits(const std::vector<DeviceProduct> &products);
  Status makeStreams();
  Status bindStep();
  Status bindTask(int id);
  Status bindConv(const ConvOp &op);
  template <typename Op> Status bindAttention(const Op &op);
  Expected<Pinned> pin(int64_t bytes);
  Expected<cudaEvent_t> newEvent();
  cudaStream_t streamOf(Queue queue) const {
    return streams[static_cast<int>(queue)];
  }
  unsigned char fillByte() const { return options.poison ? 0xff : 0; }
  char *device(const Buffer &buffer) const { return arena + buffer.offset; }

  bool finishStreams() const;
  void leakResources();
  void fail(const Status &status);
  Status step(const StepData &data);
  bool isCaptured() const;
  Status launchStep();
  Status captureStep();
  Status issueStep();
  Status issueOne(const DeviceStep &step);
  Status issueTask(const Task &task, int id);
  DeviceProduct productOf(const Task &task, const MatmulOp &op) const;
  Status issueRound(const DeviceStep &step);
  Status checkTensors();
  Status checkNumbers(const Task &task);
  Status traceBegin(int task);
  Status traceEnd(int task);
  Status waitFor(const Task &task);
  Status signal(const Task &task);
  Status joinStreams();
  Status copy(void *to, const void *from, int64_t bytes, cudaMemcpyKind kind,
              cudaStream_t stream);
  void setScalars(int64_t number);
  void takeInputs(const StepData &data);
  void takeOutputs(const StepData &data);
  Status moveNow(const Buffer &buffer, char *host, bool toDevice);

  std::shared_ptr<const CudaContext> held; ///< destroyed last
  const CudaContext &context;
  const CudaApi &cuda;
  std::unique_ptr<DeviceComm> comm;
  ExecutorOptions options;
  std::unique_ptr<DeviceBlas> blas;
  std::unique_ptr<DeviceConvs> convs; ///< if the plan has convolutions
  std::unique_ptr<DeviceAttention> attention;

  char *arena = nullptr; ///< the plan's device space, then copies of messages
  int64_t arenaBytes = 0;
  Pinned hostArena;
  Pinned ferry; ///< for moveNow, allocated on first use
  std::unique_ptr<Disk> disk = std::make_unique<Disk>();
  std::vector<void *> pinned;
  std::vector<cudaEvent_t> events;
  cudaStream_t streams[kNumQueues] = {};
  std::vector<cudaStream_t> ownStreams;
  cudaEvent_t begun = nullptr, ended[kNumQueues] = {};

  DeviceProgram program;
  int64_t messages = 0; ///< offset in the arena
  /// By the plan's event: one CUDA event for every signal in a step.
  std::vector<std::vector<cudaEvent_t>> signals;
  std::vector<size_t> signalled; ///< by event, while a step is issued
  std::map<int, Pinned> staged;  ///< by task: load_input, store_output
  std::map<size_t, Pinned> taken, scalars, skips; ///< outputs; scalar inputs
  std::map<int, DiskMove *> diskMoveOf;           ///< by task

  std::unique_ptr<DeviceTrace> trace;     ///< with ExecutorOptions::trace
  bool isTraced = false;                  ///< this step
  std::unique_ptr<DeviceNumbers> numbers; ///< with checkNumbers
  std::optional<NumberFault> fault;       ///< of this step
  cudaGraphExec_t graph = nullptr;
  int64_t stepsRun = 0;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_CUDAEXECUTOR_H
