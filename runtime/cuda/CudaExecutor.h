//===- CudaExecutor.h - runs the steps of one rank on a GPU -----*- C++ -*-===//
//
// One thread submits all tasks to the streams (DeviceStreams.h), in an order
// that MessagePlan.h finds. It waits once, at the end of the step, for the loss
// and other outputs (HostValues.h). The first step is submitted task by task;
// the second is captured as a graph, which all later steps launch.
//
//===----------------------------------------------------------------------===//
#pragma once

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

struct DeviceKernel {
  cudaKernel_t kernel = nullptr;
  dim3 blocks, threads;
  size_t sharedBytes = 0;
};

/// The state that all ranks of a process share.
struct CudaContext {
  CudaApis apis;
  std::unique_ptr<DeviceKernels> own;
  std::map<std::string, DeviceKernel> kernels; ///< by symbol
  int device = 0;
  GemmTuning gemms;
  bool tf32 = false; ///< see DeviceRequest
};

/// Checks results for NaN (ExecutorOptions::checkNumbers). Each check waits for
/// the stream, so a checked step cannot be captured as a graph.
class DeviceNumbers {
public:
  /// The arguments must outlive the returned object.
  static Expected<std::unique_ptr<DeviceNumbers>>
  create(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm);
  ~DeviceNumbers();

  /// Waits for `stream` and returns whether an element is NaN or, with
  /// `infinitiesToo`, infinite as f32.
  Expected<bool> hasNan(const void *data, DType type, int64_t count,
                        cudaStream_t stream, bool infinitiesToo = false) const;

private:
  DeviceNumbers(const CudaApi &cuda, const DeviceKernels &own, DeviceComm &comm)
      : cuda(cuda), own(own), comm(comm) {}

  const CudaApi &cuda;
  const DeviceKernels &own;
  DeviceComm &comm;
  void *flag = nullptr; ///< on the device; nonzero if a NaN was found
  void *seen = nullptr; ///< copy of `flag` in pinned memory
};

class CudaExecutor : public Executor {
public:
  /// `plan` must outlive the executor. Only create() uses `control`.
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
  /// The arguments of moveOnDisk().
  struct DiskMove {
    Disk *disk;
    int64_t offset, bytes;
    bool isWrite;
  };
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
  unsigned char fillByte; ///< initial value of every byte of memory
  std::unique_ptr<DeviceBlas> blas;
  std::unique_ptr<DeviceConvs> convs;
  std::unique_ptr<DeviceAttention> attention;

  char *arena = nullptr; ///< tensors of the plan, then copies of messages
  int64_t arenaBytes = 0;
  std::unique_ptr<PinnedMemory> pinned;
  Pinned hostArena;
  Pinned staging; ///< for moveNow(), allocated on first use
  std::unique_ptr<Disk> disk = std::make_unique<Disk>();
  std::unique_ptr<DeviceStreams> streams;

  DeviceProgram program;
  HostValues values;
  int64_t messages = 0; ///< offset in `arena` of the copies of messages
  std::map<int, DiskMove *> diskMoveOf; ///< by task

  std::unique_ptr<DeviceTrace> trace;
  bool isTraced = false;
  std::unique_ptr<DeviceNumbers> numbers;
  std::optional<NumberFault> fault;
  cudaGraphExec_t graph = nullptr;
  int64_t stepsRun = 0;
};

/// Returns the GEMM `op` of `task`, with addresses in `arena`.
DeviceGemm gemmOf(const Plan &plan, char *arena, const Task &task,
                  const MatmulOp &op);

} // namespace dpc::rt
