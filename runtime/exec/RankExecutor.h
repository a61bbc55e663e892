//===- RankExecutor.h - runs one rank's steps -------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_RANKEXECUTOR_H
#define DPC_RUNTIME_EXEC_RANKEXECUTOR_H

#include "runtime/base/HostTensor.h"
#include "runtime/base/Wait.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exec/RankMemory.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/Trace.h"

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace dpc::rt {

/// What a step reads and writes outside the arenas.
struct StepData {
  int64_t step = 1; ///< 1-based
  /// One dense global array for each of Plan::inputs.
  std::vector<const void *> inputs;
  /// One for each of Plan::outputs, of its global shape. Ranks of a process
  /// share them; each writes the parts it is the first to own.
  std::vector<HostTensor> *outputs = nullptr;
};

struct ExecutorOptions {
  /// Fill arena and padding with NaN (-1 in integers) instead of zero.
  bool poison = false;
  bool trace = false;
  /// Communicate and transfer beside computation; else one after the other, in
  /// the order of the plan.
  bool overlap = true;
  int threads = 1;              ///< for matrix products
  std::string offloadDir = "."; ///< folder for what the plan keeps on disk
  /// Called once, by the thread that fails first, with the reason.
  std::function<void(const Status &)> onFailure;
};

/// Holds a rank's memory and the threads of its other queues. All calls come
/// from one thread, which becomes the compute queue.
class RankExecutor {
public:
  /// `plan`, `kernels` and `comm` must outlive it.
  static Expected<std::unique_ptr<RankExecutor>>
  create(const Plan &plan, int rank, const KernelLibrary &kernels,
         Communicator &comm, const ExecutorOptions &options);
  ~RankExecutor();

  /// Runs one step. After a failure no further step may run.
  Status runStep(const StepData &data);

  /// A buffer of this rank's stage that is in no frame and not on disk.
  char *bufferData(int id) const { return memory.data(plan.buffers[id]); }
  /// Fills a tensor's buffer: `fill` writes its bytes, and may leave some.
  Status fillBuffer(int id, const std::function<Status(char *)> &fill);
  /// The bytes of a tensor's buffer; `scratch` holds them where they are on
  /// disk.
  Expected<const char *> readBuffer(int id, std::vector<char> &scratch) const;
  /// Whether a buffer is of this rank's stage.
  bool holds(int id) const { return plan.buffers[id].stage == stageIndex; }
  /// 0xff with poison, else 0.
  unsigned char fillByte() const { return options.poison ? 0xff : 0; }
  int rank() const { return rankIndex; }
  std::vector<TraceLane> &traceLanes() { return lanes; }

private:
  RankExecutor(const Plan &plan, int rank, Communicator &comm,
               const ExecutorOptions &options);

  void queueLoop(Queue queue);
  void runQueue(Queue queue);
  Status runTask(const Task &task);
  std::string placeIn(const Task &task) const;
  bool waitFor(const EventWait &wait);
  void fail(Status status);
  void setScalars(int64_t step);
  void takeOutputs();

  struct OpRunner;

  const Plan &plan;
  int rankIndex;
  int64_t stageIndex; ///< of the rank
  Communicator &comm;
  ExecutorOptions options;
  RankMemory memory;
  RankProgram program;
  std::vector<WaitWord> events;
  std::vector<bool> isStored; ///< by output: an instruction stores it
  std::vector<TraceLane> lanes;
  const StepData *step = nullptr;

  std::atomic<bool> failed{false};
  std::mutex mutex; ///< guards `failure`
  Status failure;
  WaitWord started, finished; ///< steps, as the side threads see them
  std::atomic<bool> stopping{false};
  std::vector<std::thread> sideThreads; ///< of other queues with tasks
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_RANKEXECUTOR_H
