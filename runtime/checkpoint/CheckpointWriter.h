//===- CheckpointWriter.h - saves the state of a run ------------*- C++ -*-===//
//
// Between two steps, every process takes what its ranks own: either a copy,
// which a thread writes while the run continues, or the memory itself, which is
// written before the run continues. Processes synchronize through the folder
// instead of a communicator: a file that exists is complete, and the process
// that holds rank 0 publishes the checkpoint when all files exist. So a
// checkpoint disturbs no step, and only a time limit waits for a process that
// has died.
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
  /// An identifier with the same value in all processes of this run, and in no
  /// other run.
  std::string tag;
  int64_t keep = 2;            ///< number of newest checkpoints to keep
  bool isBackground = true;    ///< copy, and write during the next steps
  double timeoutSeconds = 300; ///< for the files of the other processes
};

class CheckpointWriter {
public:
  /// `plan` and `session` must outlive the writer.
  CheckpointWriter(const Plan &plan, Session &session,
                   CheckpointOptions options);
  /// Stops; a checkpoint that is being written stays unfinished.
  ~CheckpointWriter();

  /// Saves the state after `step` steps, with the data at `position`. Waits for
  /// the previous checkpoint. Called by all processes.
  Status save(int64_t step, const DataPosition &position = {});
  /// Waits until the last checkpoint is complete. Called by all processes.
  Status finish();
  /// Whether the last checkpoint has failed, as far as this process knows.
  bool hasFailed() const;
  /// The failure of the last checkpoint, if it has failed anywhere by now.
  /// Processes where it did not fail return Cancelled. Called by all processes.
  Status agree();
  /// Whether all processes know of a failure.
  bool areAgreed() const { return hasAgreed; }
  /// The step of the last checkpoint that this process finished; -1: none.
  int64_t lastSaved() const { return saved; }

private:
  /// The shards that one rank owns.
  struct RankShards {
    int64_t rank = 0;
    std::vector<ShardBytes> shards;
    std::vector<char> copy; ///< the memory of `shards` if isBackground
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
  DataPosition data;             ///< of the checkpoint that is being written
  std::thread thread;
  std::atomic<bool> stopping{false}, isDone{true};
  Status result; ///< of the thread; read after isDone
  std::atomic<int64_t> saved{-1};
  bool hasAgreed = false;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
