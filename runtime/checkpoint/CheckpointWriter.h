//===- CheckpointWriter.h - saves the state of a run ------------*- C++ -*-===//
//
// Between two steps every process takes what its ranks own: a copy, which a
// thread writes while the run goes on, or their memory itself, which is written
// before it does. Processes meet in the folder, not in a communicator: a file
// that is there is complete, and the process that holds rank 0 publishes the
// checkpoint when all are. So a checkpoint disturbs no step, and nothing waits
// for a process that died but a time limit.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
#define DPC_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/ShardFile.h"
#include "runtime/exec/Session.h"

#include <atomic>
#include <thread>

namespace dpc::rt {

struct CheckpointOptions {
  CheckpointFolder folder{""};
  /// The same in all processes of this run, and in no other run.
  std::string tag;
  int64_t keep = 2;            ///< newest checkpoints that stay
  bool isBackground = true;    ///< copy, and write beside the next steps
  double timeoutSeconds = 300; ///< for the files of the other processes
};

class CheckpointWriter {
public:
  /// `plan` and `session` must outlive it.
  CheckpointWriter(const Plan &plan, Session &session,
                   CheckpointOptions options);
  /// Stops; what is being written is left unfinished.
  ~CheckpointWriter();

  /// Saves the state after `step` steps, where the data stands at `position`.
  /// Waits for the one before. Called by all processes.
  Status save(int64_t step, const DataPosition &position = {});
  /// Waits until the last one is complete. Called by all processes.
  Status finish();
  /// Whether the last one has failed, as far as this process knows.
  bool hasFailed() const;
  /// The failure of the last one, if it has failed anywhere by now: in the
  /// processes where it did not, Cancelled. Called by all processes.
  Status agree();
  /// Whether all processes have heard of a failure.
  bool areAgreed() const { return hasAgreed; }
  /// Steps of the last checkpoint that this process finished; -1: none.
  int64_t lastSaved() const { return saved; }

private:
  /// What one rank owns.
  struct RankShards {
    int64_t rank = 0;
    std::vector<ShardBytes> shards;
    std::vector<char> copy; ///< behind `shards`, with isBackground
  };
  Status collect();
  Status collectRank(Executor &executor, RankShards &out) const;
  Status makeFolder(int64_t step);
  Status write(int64_t step);
  Status writeFiles(int64_t step);
  bool isGone(int64_t step) const;
  void removeWritten(int64_t step) const;
  static Status elsewhere();
  Status publish(int64_t step);
  Expected<SavedFile> awaitFile(const std::string &path);

  const Plan &plan;
  Session &session;
  CheckpointOptions options;
  std::vector<RankShards> ranks; ///< of this process, reused
  DataPosition data;             ///< of the one that is being written
  std::thread thread;
  std::atomic<bool> stopping{false}, isDone{true};
  Status result; ///< of the thread; read after isDone
  std::atomic<int64_t> saved{-1};
  bool hasAgreed = false;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
