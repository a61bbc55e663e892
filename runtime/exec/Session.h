//===- Session.h - a running plan -------------------------------*- C++ -*-===//
//
//   auto comms = makeLocalComms(plan.ranks(), {});
//   auto session = Session::create(plan, kernels, std::move(comms), options);
//   (*session)->initialize(values);
//   (*session)->step(1, inputs);
//   (*session)->output("loss");
//
// A session holds the ranks of this process: all of them with local
// communicators, or one under mpirun. All processes make every call.
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

/// `onFailure` is called by the first rank that fails in a step, before it
/// tells the others.
struct SessionOptions : StepSettings {
  /// Threads of a rank for GEMMs; 0: cores / ranks of this process, at least 1.
  int threadsPerRank = 0;
  std::string flightRecord; ///< folder for FlightRecord; "": none
};

class Session {
public:
  /// `plan` and `kernels` must outlive the session. `comms` are the
  /// communicators of the ranks of this process; their world size is the plan's
  /// number of ranks.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const KernelLibrary &kernels,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  /// The same with executors that `makeExecutor` makes.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const ExecutorFactory &makeExecutor,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  ~Session();

  /// Fills all tensors.
  Status initialize(const ValueSource &values);

  /// Runs step `number` (1-based) on dense global inputs.
  Status step(int64_t number, const std::vector<const void *> &inputs);

  /// The outputs of the last step, in the order of Plan::outputs; complete in
  /// the process that holds rank 0.
  const std::vector<HostTensor> &outputs() const { return outputValues; }
  /// The output `name`, or nullptr if the plan has no such output.
  const HostTensor *output(const std::string &name) const;

  /// Assembles a tensor from its shards; complete in the process that holds
  /// rank 0.
  Expected<HostTensor> gather(const Tensor &tensor);

  /// The ranks of this process.
  const std::vector<std::unique_ptr<Executor>> &ranksHere() const {
    return executors;
  }
  /// The communicator of the `i`th rank of this process, for messages between
  /// steps.
  Communicator &commOf(size_t i) { return *comms[i]; }
  /// Runs job(i) for rank i of this process on that rank's thread, all at once.
  /// Returns the first failure that is not Cancelled.
  Status onAllRanks(const std::function<Status(size_t)> &job);
  /// Gives all processes the result of `make` in the process that holds rank 0,
  /// or its failure.
  Expected<std::string>
  fromRankZero(const std::function<Expected<std::string>()> &make);
  /// Whether `mine` holds in any process.
  Expected<bool> anywhere(bool mine);

  /// The place where the last step's first NaN was written, on any rank: "rank
  /// 2: .."; "" if there is none, and in processes that do not hold rank 0.
  Expected<std::string> numberFault();

  /// Why there is no flight record where one was requested. The run continues
  /// without it.
  const Status &recordStatus() const { return recordFailure; }

  /// Whether this process holds rank 0.
  bool holdsRankZero() const { return executors.front()->rank() == 0; }
  /// Chrome trace events of this process's ranks.
  std::string traceEvents() const;
  /// Removes everything that ran until now from the trace events.
  void forgetTrace();
  /// Collects the texts of all processes, in order of ranks, in the process of
  /// rank 0; the other processes get none.
  Expected<std::vector<std::string>> collectTexts(const std::string &text);

private:
  class Worker;
  Session(const Plan &plan, const SessionOptions &options);

  void openRecords();

  /// The part of an array that (rank, micro-batch) holds.
  struct Shard {
    int rank;
    int64_t microBatch;
  };
  /// The shards of a value of pipeline stage `stage` that are sent from this
  /// process or received by rank 0's, in order.
  std::vector<Shard> travelling(const Layout &layout, int64_t stage) const;
  /// Collects these shards in the array of rank 0.
  Status collect(HostTensor &global, const Layout &layout,
                 const std::vector<Shard> &shards);
  int64_t stageOf(int buffer) const { return plan.buffers[buffer].stage; }

  const Plan &plan;
  SessionOptions options;
  double origin = 0;
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<std::unique_ptr<FlightRecord>> records; ///< of ranks, or empty
  Status recordFailure;
  std::vector<std::unique_ptr<Executor>> executors;
  std::vector<HostTensor> outputValues;
  std::vector<std::vector<Shard>> outputShards; ///< travelling() of each output
  std::vector<std::unique_ptr<Worker>> workers; ///< stop before the other
                                                ///< members are destroyed
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_SESSION_H
