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
#ifndef DPC_RUNTIME_EXEC_SESSION_H
#define DPC_RUNTIME_EXEC_SESSION_H

#include "runtime/comm/Communicator.h"
#include "runtime/exec/Executor.h"
#include "runtime/io/InitialValues.h"
#include "runtime/kernels/KernelLibrary.h"

#include <functional>
#include <memory>

namespace dpc::rt {

/// The first rank that fails in a step calls `onFailure` before it aborts the
/// other ranks.
struct SessionOptions : StepSettings {
  /// Threads of a rank for GEMMs; 0: cores / ranks of this process, at least 1.
  int threadsPerRank = 0;
  std::string flightRecord; ///< folder for FlightRecord; "": none
};

class Session {
public:
  /// `plan` and `kernels` must outlive the session. `comms` are the
  /// communicators of the ranks of this process. The number of ranks in the
  /// world must be that of the plan.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const KernelLibrary &kernels,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  /// Creates a session whose executors come from `makeExecutor`.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const ExecutorFactory &makeExecutor,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  ~Session();

  /// Fills all tensors.
  Status initialize(const ValueSource &values);

  /// Runs step `number` (1-based) on dense global inputs.
  Status step(int64_t number, const std::vector<const void *> &inputs);

  /// The outputs of the last step, in the order of Plan::outputs. They are
  /// complete only in the process of rank 0.
  const std::vector<HostTensor> &outputs() const { return outputValues; }
  /// The output `name`; null if there is none.
  const HostTensor *output(const std::string &name) const;

  /// Assembles a tensor from its shards. It is complete only in the process of
  /// rank 0.
  Expected<HostTensor> gather(const Tensor &tensor);

  /// The ranks of this process.
  const std::vector<std::unique_ptr<Executor>> &ranksHere() const {
    return executors;
  }
  /// The communicator of the `i`th rank of this process, for messages between
  /// steps.
  Communicator &commOf(size_t i) { return *comms[i]; }
  /// Runs job(i) for each rank i of this process, on the rank's thread. Returns
  /// the first failure, preferably one other than Cancelled.
  Status onAllRanks(const std::function<Status(size_t)> &job);
  /// Calls `make` in the process of rank 0, and returns its result or failure
  /// in all processes.
  Expected<std::string>
  fromRankZero(const std::function<Expected<std::string>()> &make);
  /// Whether `mine` is true in any process.
  Expected<bool> anywhere(bool mine);

  /// The place of the first NaN of the last step on any rank: "rank 2: ..". ""
  /// if there is no NaN, and in processes without rank 0.
  Expected<std::string> numberFault();

  /// The reason why a requested flight record is missing. The run continues
  /// without it.
  const Status &recordStatus() const { return recordFailure; }

  /// Whether this process holds rank 0.
  bool holdsRankZero() const { return executors.front()->rank() == 0; }
  /// Chrome trace events of this process's ranks.
  std::string traceEvents() const;
  /// Removes all trace events so far.
  void forgetTrace();
  /// Collects the texts of all processes, in the order of ranks, in the process
  /// of rank 0. Returns an empty list in the other processes.
  Expected<std::vector<std::string>> collectTexts(const std::string &text);

private:
  class Worker;
  Session(const Plan &plan, const SessionOptions &options);

  void openRecords();

  /// The shard of an array that (rank, micro-batch) holds.
  struct Shard {
    int rank;
    int64_t microBatch;
  };
  /// The shards of a value of pipeline stage `stage` that this process sends to
  /// rank 0, or that rank 0 receives, in order.
  std::vector<Shard> travelling(const Layout &layout, int64_t stage) const;
  /// Sends `shards` to rank 0, which copies them into its array `global`.
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
  std::vector<std::vector<Shard>> outputShards; ///< travelling() of each output
  std::vector<std::unique_ptr<Worker>> workers; ///< last: they use the others
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_SESSION_H
