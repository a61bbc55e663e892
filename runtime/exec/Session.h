//===- Session.h - a running plan -------------------------------*- C++ -*-===//
//
//   auto comms = makeLocalComms(plan.ranks(), {});
//   auto session = Session::create(plan, kernels, std::move(comms), options);
//   (*session)->initialize(values);
//   (*session)->step(1, inputs);
//   (*session)->output("loss");
//
// A session holds the ranks of this process: all ranks with local
// communicators, or one rank under mpirun. All processes make every call.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/exec/Executor.h"
#include "runtime/io/InitialValues.h"
#include "runtime/kernels/KernelLibrary.h"

#include <functional>
#include <memory>

namespace dpc::rt {

/// The first rank that fails calls `onFailure`, then aborts the other ranks.
struct SessionOptions : StepSettings {
  /// Threads per rank for GEMMs; 0: cores / ranks of this process.
  int threadsPerRank = 0;
  std::string flightRecord; ///< folder for FlightRecord; "": none
  /// Whether a step fails if Port::faults counts any.
  bool refusesFaults = false;
};

class Session {
public:
  /// `plan` and `kernels` must outlive the session. `comms` has a communicator
  /// for each rank of this process, in a world of plan.ranks() ranks.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const KernelLibrary &kernels,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const ExecutorFactory &makeExecutor,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  ~Session();

  Status initialize(const ValueSource &values);

  /// Runs step `number` (1-based). `inputs` are dense global arrays. With
  /// SessionOptions::refusesFaults, fails with StatusCode::Invalid in all
  /// processes if indices were out of range.
  Status step(int64_t number, const std::vector<const void *> &inputs);

  /// The outputs of the last step, by index in Plan::outputs. Complete only in
  /// the process of rank 0.
  const std::vector<HostTensor> &outputs() const { return outputValues; }
  const HostTensor *output(const std::string &name) const;

  /// Assembles the global tensor from its shards. The result is complete only
  /// in the process of rank 0.
  Expected<HostTensor> gather(const Tensor &tensor);

  const std::vector<std::unique_ptr<Executor>> &ranksHere() const {
    return executors;
  }
  /// The communicator of the `i`th rank of this process, for use between steps.
  Communicator &commOf(size_t i) { return *comms[i]; }
  /// Runs job(i) for the `i`th rank of this process, in the thread of the rank.
  /// If several jobs fail, prefers a failure other than Cancelled.
  Status onAllRanks(const std::function<Status(size_t)> &job);
  /// Calls `make` in the process of rank 0. All processes get the result.
  Expected<std::string>
  fromRankZero(const std::function<Expected<std::string>()> &make);
  /// Returns whether `mine` is true in any process.
  Expected<bool> anywhere(bool mine);

  /// Returns the place of the first NaN of the last step, "rank 2: ..", or ""
  /// if there is no NaN. Processes without rank 0 get "".
  Expected<std::string> numberFault();

  /// Why a requested flight record is missing. The run continues without it.
  const Status &recordStatus() const { return recordFailure; }

  bool holdsRankZero() const { return executors.front()->rank() == 0; }
  /// Returns the events of the ranks of this process by traceEventsJson().
  std::string traceEvents() const;
  void forgetTrace();
  /// Returns the texts of all processes by rank in the process of rank 0, and
  /// an empty list in other processes.
  Expected<std::vector<std::string>> collectTexts(const std::string &text);

private:
  class Worker;
  Session(const Plan &plan, const SessionOptions &options);

  void openRecords();
  Status refuseFaults(int64_t step);

  struct Shard {
    int rank;
    int64_t microBatch;
  };
  /// Returns, in order, the shards of a value in pipeline stage `stage` that
  /// this process sends to rank 0 or, on rank 0, receives.
  std::vector<Shard> travelling(const Layout &layout, int64_t stage) const;
  /// Copies `shards` into `global` on rank 0.
  Status collect(HostTensor &global, const Layout &layout,
                 const std::vector<Shard> &shards);
  int64_t stageOf(int buffer) const { return plan.buffers[buffer].stage; }

  const Plan &plan;
  SessionOptions options;
  double origin = 0;
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<std::unique_ptr<FlightRecord>> records; ///< by rank, or empty
  Status recordFailure;
  std::vector<std::unique_ptr<Executor>> executors;
  std::vector<HostTensor> outputValues;
  std::vector<std::vector<Shard>> outputShards; ///< by output
  /// last: the workers use the other members
  std::vector<std::unique_ptr<Worker>> workers;
};

} // namespace dpc::rt
