//===- CheckpointWriter.h - saves the state of a run ------------*- C++ -*-===//
//
// A checkpoint is taken between two steps. In background mode, each process
// copies the shards that its ranks own, and a thread writes the copy during the
// next steps. Otherwise, the shards are written before the run continues.
// Processes synchronize through the folder instead of a communicator, so that
// writing does not disturb steps: a file that exists is complete, and the
// process of rank 0 publishes the checkpoint when all files exist. If another
// process has died, this process waits until the timeout.
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
  /// An identifier of this run, equal in all of its processes.
  std::string tag;
  int64_t keep = 2;            ///< how many of the newest checkpoints to keep
  bool isBackground = true;    ///< write a copy during the next steps
  double timeoutSeconds = 300; ///< wait for other processes' files
};

class CheckpointWriter {
public:
  /// `plan` and `session` must outlive the writer.
  CheckpointWriter(const Plan &plan, Session &session,
                   CheckpointOptions options);
  /// Stops writing. If a checkpoint is being written, it stays unfinished.
  ~CheckpointWriter();

  /// Saves the state after `step` steps and the position in the data. Waits for
  /// the previous checkpoint. Called by all processes.
  Status save(int64_t step, const DataPosition &position = {});
  /// Waits until the last checkpoint is complete. Called by all processes.
  Status finish();
  /// Whether the last checkpoint has failed, as far as this process knows.
  bool hasFailed() const;
  /// Returns the failure of the last checkpoint if it has failed in any process
  /// so far, and Cancelled if it failed only in other processes. Called by all
  /// processes.
  Status agree();
  /// Whether agree() has returned a failure, so that all processes know of it.
  bool areAgreed() const { return hasAgreed; }

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
  DataPosition data; ///< position for the checkpoint that is being written
  std::thread thread;
  std::atomic<bool> stopping{false}, isDone{true};
  Status result; ///< set by the thread; read after isDone
  bool hasAgreed = false;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
