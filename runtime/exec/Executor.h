//===- Executor.h - interface that runs a rank's steps ----------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/comm/Communicator.h"
#include "runtime/kernels/ExpertTiles.h"
#include "runtime/observe/FlightRecord.h"
#include "runtime/observe/NumberCheck.h"
#include "runtime/observe/Trace.h"

#include <functional>
#include <memory>
#include <optional>

namespace dpc::rt {

struct StepData {
  int64_t step = 1; ///< 1-based
  /// A dense global array for each of Plan::inputs.
  std::vector<const void *> inputs;
  /// A global array for each of Plan::outputs. The ranks of a process share the
  /// arrays; each rank writes the shards that it owns.
  std::vector<HostTensor> *outputs = nullptr;
};

/// Settings that are equal on all ranks.
struct StepSettings {
  /// Whether unwritten memory and padding are NaN (-1 in integers), not 0.
  bool poison = false;
  bool trace = false;
  /// Whether the results of all instructions are checked for NaN.
  bool checkNumbers = false;
  /// Whether to measure the time for takeOwnSeconds().
  bool timesRanks = false;
  /// Whether communication and transfers overlap with computation. If false,
  /// instructions run one after another in the order of the plan.
  bool overlap = true;
  std::string offloadDir = "."; ///< folder for values offloaded to disk
  /// Called once with the reason, by the first thread that fails.
  std::function<void(const Status &)> onFailure;
};

struct ExecutorOptions : StepSettings {
  int threads = 1;                      ///< for GEMMs
  FlightRecord *flightRecord = nullptr; ///< may be null
};

/// Runs the steps of a rank on its memory. RankExecutor is for CPUs; a Device
/// creates executors for other devices. One thread makes all calls.
class Executor {
public:
  Executor(const Plan &plan, int rank)
      : plan(plan), rankIndex(rank), stageIndex(plan.mesh.stageOf(rank)) {}
  virtual ~Executor() = default;

  /// After a failure, no further step may run.
  virtual Status runStep(const StepData &data) = 0;
  /// Fills the buffer of a tensor with poison or zeros, then calls fill(bytes).
  virtual Status fillBuffer(int id,
                            const std::function<Status(char *)> &fill) = 0;
  /// Returns the bytes of the buffer of a tensor. A buffer that is not in host
  /// memory is copied to `scratch`.
  virtual Expected<const char *> readBuffer(int id,
                                            std::vector<char> &scratch) = 0;
  /// Returns when each instruction ran; empty without StepSettings::trace.
  virtual std::vector<TraceLane> traceLanes() const { return {}; }
  virtual void forgetTrace() {}
  /// Returns the first NaN of the last step, if StepSettings::checkNumbers.
  virtual std::optional<NumberFault> numberFault() const { return {}; }

  /// Returns how many seconds the rank has spent in instructions without
  /// communication since the last call. 0 without StepSettings::timesRanks.
  virtual double takeOwnSeconds() { return 0; }
  /// Returns the counts of all tiles of experts since the last call.
  virtual ExpertCounts takeExpertCounts() { return {}; }

  bool holds(int id) const { return plan.buffers[id].stage == stageIndex; }
  int rank() const { return rankIndex; }

protected:
  const Plan &plan;
  int rankIndex;
  int64_t stageIndex; ///< of the rank
};

/// Creates the executor of the rank of a communicator. Called by the thread
/// that then uses the executor.
using ExecutorFactory = std::function<Expected<std::unique_ptr<Executor>>(
    Communicator &, const ExecutorOptions &)>;

} // namespace dpc::rt
