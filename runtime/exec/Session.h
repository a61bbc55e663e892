//===- Session.h - a plan being run -----------------------------*- C++ -*-===//
//
//   auto comms = makeLocalComms(plan.ranks(), {});
//   auto session = Session::create(plan, kernels, std::move(comms), options);
//   (*session)->initialize(values);
//   (*session)->step(1, inputs);
//   (*session)->output("loss");
//
// A session holds the ranks of this process: all of them with local
// communicators, one under mpirun. Every call is made by all processes.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_EXEC_SESSION_H
#define DPC_RUNTIME_EXEC_SESSION_H

#include "runtime/comm/Communicator.h"
#include "runtime/exec/Executor.h"
#include "runtime/io/ValueSource.h"
#include "runtime/kernels/KernelLibrary.h"

#include <functional>
#include <memory>

namespace dpc::rt {

struct SessionOptions {
  bool poison = false; ///< see ExecutorOptions
  bool trace = false;
  bool checkNumbers = false; ///< see ExecutorOptions
  bool timesRanks = false;   ///< see ExecutorOptions
  bool overlap = true;       ///< see ExecutorOptions
  /// Threads of a rank for matrix products; 0: cores / ranks of this process,
  /// at least 1.
  int threadsPerRank = 0;
  std::string offloadDir = "."; ///< see ExecutorOptions
  std::string flightRecord;     ///< folder for FlightRecord; "": none
  /// Called by the first rank that fails in a step, before others are told.
  std::function<void(const Status &)> onFailure;
};

class Session {
public:
  /// `plan` and `kernels` must outlive the session. `comms` are those of the
  /// ranks of this process, whose common world size is the plan's.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const KernelLibrary &kernels,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  /// The same on what `makeExecutor` makes.
  static Expected<std::unique_ptr<Session>>
  create(const Plan &plan, const ExecutorFactory &makeExecutor,
         std::vector<std::unique_ptr<Communicator>> comms,
         const SessionOptions &options);
  ~Session();

  /// Fills all tensors.
  Status initialize(const ValueSource &values);

  /// Runs step `number` (1-based) on dense global inputs.
  Status step(int64_t number, const std::vector<const void *> &inputs);

  /// The last step's outputs, in the order of Plan::outputs; complete in the
  /// process that holds rank 0.
  const std::vector<HostTensor> &outputs() const { return outputValues; }
  /// A scalar among them, nullptr when the plan has none of this name.
  const HostTensor *output(const std::string &name) const;

  /// A tensor, put together from its shards; complete in the process that
  /// holds rank 0.
  Expected<HostTensor> gather(const Tensor &tensor);

  /// The ranks of this process.
  const std::vector<std::unique_ptr<Executor>> &ranksHere() const {
    return executors;
  }
  /// That of the `i`th of them, for messages between steps.
  Communicator &commOf(size_t i) { return *comms[i]; }
  /// Runs job(i) for rank i of this process on that rank's thread, all at
  /// once; the first failure that is not Cancelled.
  Status onAllRanks(const std::function<Status(size_t)> &job);
  /// What `make` gives in the process that holds rank 0, or why it failed
  /// there, in all of them.
  Expected<std::string>
  fromRankZero(const std::function<Expected<std::string>()> &make);
  /// Whether `mine` holds in any process.
  Expected<bool> anywhere(bool mine);

  /// Where the last step's first NaN was written, on any rank: "rank 2: ..";
  /// "" without one, and in processes that do not hold rank 0.
  Expected<std::string> numberFault();

  /// Why there is no flight record where one was asked for: no reason to end.
  const Status &recordStatus() const { return recordFailure; }

  /// Whether this process holds rank 0.
  bool holdsRankZero() const { return executors.front()->rank() == 0; }
  /// Chrome trace events of this process's ranks.
  std::string traceEvents() const;
  /// Leaves out of them what ran until now.
  void forgetTrace();
  /// Gives rank 0's process the texts of all processes, in order of ranks;
  /// others get none.
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
  /// The shards of a value of pipeline stage `stage` that travel between this
  /// process and rank 0's, in order.
  std::vector<Shard> travelling(const Layout &layout, int64_t stage) const;
  /// Brings them to rank 0's array.
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
  std::vector<std::unique_ptr<Worker>> workers; ///< stop before the rest goes
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_SESSION_H
