//===- CheckpointWriter.h - saves the state of a run ------------*- C++ -*-===//
//
// A checkpoint contains the state between two steps. In background mode, each
// process copies the shards that its ranks own, and a thread writes the copies
// during the next steps. Otherwise, the run waits until the shards are written.
//
// Processes synchronize through the folder instead of a communicator, so that
// writing does not disturb steps. A shard file is complete when it appears, and
// the process of rank 0 publishes the checkpoint when all shard files exist. If
// a process dies, its file never appears, and rank 0 fails after a timeout.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/ShardFile.h"
#include "runtime/exec/Session.h"

#include <atomic>
#include <thread>

namespace dpc::rt {

struct CheckpointOptions {
  CheckpointFolder folder{""};
  /// Identifies this run. All of its processes have the same tag.
  std::string tag;
  int64_t keep = 2;
  bool isBackground = true;
  double timeoutSeconds = 300; ///< for shard files of other processes
  std::string profile;         ///< see Manifest; only that of rank 0 counts
};

class CheckpointWriter {
public:
  /// `plan` and `session` must outlive the writer.
  CheckpointWriter(const Plan &plan, Session &session,
                   CheckpointOptions options);
  /// Stops writing. A checkpoint in progress stays unfinished.
  ~CheckpointWriter();

  /// Waits for the previous checkpoint, then saves the state after `step` steps
  /// and the position in the data. All processes call this.
  Status save(int64_t step, const DataPosition &position = {});
  /// Waits until the last checkpoint is complete. All processes call this.
  Status finish();
  /// Whether this process knows that the last checkpoint has failed.
  bool hasFailed() const;
  /// Fails if the last checkpoint has failed in any process. Processes without
  /// a failure get Cancelled. All processes call this.
  Status agree();
  /// Whether agree() has failed. If so, all processes know of the failure.
  bool areAgreed() const { return hasAgreed; }

private:
  struct RankShards {
    int64_t rank = 0;
    std::vector<ShardBytes> shards;
    std::vector<char> copy; ///< owns the data of `shards` if isBackground
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
  std::vector<RankShards> ranks;
  DataPosition data;
  std::thread thread;
  std::atomic<bool> stopping{false}, isDone{true};
  Status result; ///< set by the thread before isDone
  bool hasAgreed = false;
};

} // namespace dpc::rt
