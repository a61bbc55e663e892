//===- Executor.h - interface that runs a rank's steps ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_EXECUTOR_H
#define DPC_RUNTIME_EXEC_EXECUTOR_H

#include "runtime/base/HostTensor.h"
#include "runtime/comm/Communicator.h"
#include "runtime/observe/FlightRecord.h"
#include "runtime/observe/NumberCheck.h"
#include "runtime/observe/Trace.h"

#include <functional>
#include <memory>
#include <optional>

namespace dpc::rt {

/// The data of a step outside the rank's memory.
struct StepData {
  int64_t step = 1; ///< 1-based
  /// One dense global array for each of Plan::inputs.
  std::vector<const void *> inputs;
  /// One global array for each of Plan::outputs. The ranks of a process share
  /// these arrays; each rank writes the shards that it owns.
  std::vector<HostTensor> *outputs = nullptr;
};

/// The settings of the steps of all ranks.
struct StepSettings {
  /// Fill memory and padding with NaN (-1 in integers) instead of zero.
  bool poison = false;
  bool trace = false;
  /// Check the results of all instructions for NaN.
  bool checkNumbers = false;
  /// Measure how long each rank spends without communication
  /// (takeOwnSeconds()).
  bool timesRanks = false;
  /// Overlap communication and transfers with computation. Otherwise, run all
  /// instructions one after the other in the order of the plan.
  bool overlap = true;
  std::string offloadDir = "."; ///< folder for values that stay on disk
  /// Called once, by the thread that fails first, with the reason.
  std::function<void(const Status &)> onFailure;
};

struct ExecutorOptions : StepSettings {
  int threads = 1;                      ///< for GEMMs
  FlightRecord *flightRecord = nullptr; ///< the rank's record, or null
};

/// Holds a rank's memory and runs its steps. RankExecutor runs on CPUs; a
/// Device makes other executors. All calls come from one thread.
class Executor {
public:
  Executor(const Plan &plan, int rank)
      : plan(plan), rankIndex(rank), stageIndex(plan.mesh.stageOf(rank)) {}
  virtual ~Executor() = default;

  /// Runs one step. After a failure no further step may run.
  virtual Status runStep(const StepData &data) = 0;
  /// Fills a tensor's buffer with poison or zeros, and then calls fill(bytes).
  virtual Status fillBuffer(int id,
                            const std::function<Status(char *)> &fill) = 0;
  /// The bytes of a tensor's buffer. Buffers outside host memory are copied to
  /// `scratch`.
  virtual Expected<const char *> readBuffer(int id,
                                            std::vector<char> &scratch) = 0;
  /// When each instruction ran; empty without StepSettings::trace.
  virtual std::vector<TraceLane> traceLanes() const { return {}; }
  virtual void forgetTrace() {}
  /// The first NaN of the last step; nullopt without
  /// StepSettings::checkNumbers.
  virtual std::optional<NumberFault> numberFault() const { return {}; }

  /// The seconds that the rank spent in instructions without communication
  /// since the last call, with StepSettings::timesRanks. 0 if unknown.
  virtual double takeOwnSeconds() { return 0; }

  /// Whether a buffer belongs to this rank's stage.
  bool holds(int id) const { return plan.buffers[id].stage == stageIndex; }
  int rank() const { return rankIndex; }

protected:
  const Plan &plan;
  int rankIndex;
  int64_t stageIndex; ///< of the rank
};

/// Makes the executor of the communicator's rank, in the thread that uses it.
using ExecutorFactory = std::function<Expected<std::unique_ptr<Executor>>(
    Communicator &, const ExecutorOptions &)>;

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_EXECUTOR_H
