//===- RankExecutor.h - the executor of one rank on the CPU -----*- C++ -*-===//
#pragma once

#include "runtime/base/Wait.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/RankMemory.h"
#include "runtime/exec/RankProgram.h"

#include <mutex>
#include <thread>
#include <utility>

namespace dpc::rt {

/// Runs each queue in a thread. The calling thread runs the compute queue.
class RankExecutor : public Executor {
public:
  /// `plan`, `kernels` and `comm` must outlive the executor.
  static Expected<std::unique_ptr<RankExecutor>>
  create(const Plan &plan, int rank, const KernelLibrary &kernels,
         Communicator &comm, const ExecutorOptions &options);
  ~RankExecutor() override;

  Status runStep(const StepData &data) override;
  Status fillBuffer(int id, const std::function<Status(char *)> &fill) override;
  Expected<const char *> readBuffer(int id,
                                    std::vector<char> &scratch) override;
  std::vector<TraceLane> traceLanes() const override { return lanes; }
  void forgetTrace() override {
    for (TraceLane &lane : lanes)
      lane.events.clear();
    tracedSteps = 0;
  }
  std::optional<NumberFault> numberFault() const override { return fault; }
  double takeOwnSeconds() override { return std::exchange(ownSeconds, 0); }
  ExpertCounts takeExpertCounts() override {
    return std::exchange(expertCounts, {});
  }

private:
  RankExecutor(const Plan &plan, int rank, Communicator &comm,
               const ExecutorOptions &options);

  /// The buffer must belong to this rank and be neither in a frame nor on disk.
  char *bufferData(int id) const { return memory.data(plan.buffers[id]); }
  /// All bits set are NaN in floats and -1 in integers.
  unsigned char fillByte() const { return options.poison ? 0xff : 0; }

  void queueLoop(Queue queue);
  void runQueue(Queue queue);
  Status runTask(const Task &task);
  std::string placeIn(const Task &task) const;
  void checkNumbers(const Task &task);
  void checkTensors();
  bool waitFor(const EventWait &wait);
  void fail(Status status);
  void setScalars(int64_t step);
  void takeOutputs();

  struct OpRunner;

  Communicator &comm;
  ExecutorOptions options;
  RankMemory memory;
  RankProgram program;
  std::vector<WaitWord> events;
  /// For each output, whether an instruction stores it.
  std::vector<bool> isStored;
  double ownSeconds = 0;
  ExpertCounts expertCounts;
  int64_t stepsTraced;
  std::vector<TraceLane> lanes;
  int64_t tracedSteps = 0;
  bool tracesStep = false;
  const StepData *step = nullptr;

  std::atomic<bool> failed{false};
  std::mutex mutex; ///< guards `failure`, `fault` and `expertCounts`
  Status failure;
  std::optional<NumberFault> fault;
  WaitWord started, finished;
  std::atomic<bool> stopping{false};
  std::vector<std::thread> sideThreads; ///< one per side queue
};

} // namespace dpc::rt
