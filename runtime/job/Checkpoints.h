//===- Checkpoints.h - --checkpoint and --resume ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_CHECKPOINTS_H
#define DPC_RUNTIME_JOB_CHECKPOINTS_H

#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

#include <memory>

namespace dpc {

/// Saves the state of a run and restores it. All processes make all calls.
class Checkpoints {
public:
  Checkpoints(const RunOptions &options, const rt::Plan &plan,
              rt::Session &session, rt::InputSource &inputs)
      : options(options), plan(plan), session(session), inputs(inputs) {}

  /// Creates the folder of --checkpoint. If --resume names a checkpoint, fills
  /// the session's tensors from it, moves the data to its position, and returns
  /// the number of completed steps. Returns -1 and fills no tensors if there is
  /// no checkpoint.
  Expected<int64_t> begin();
  /// The checkpoint from which begin() resumed, or "".
  const std::string &from() const { return path; }
  /// Called after each step. Saves after every --checkpoint-every steps and
  /// after the last one.
  Status afterStep(int64_t step, bool isLast);
  /// Waits until the current checkpoint is written.
  Status finish();
  /// The signal that any process has received; 0: none. The result is equal in
  /// all processes. Fails if a background checkpoint has failed in any process.
  Expected<int> stoppedBy();

  /// See CheckpointWriter::areAgreed().
  bool areAgreed() const { return writer && writer->areAgreed(); }

private:
  Expected<std::string> chooseFolder() const;
  std::string otherChoice() const;
  Status checkNewest(const rt::CheckpointFolder &folder) const;
  Expected<std::string> prepare();
  Status resumeData(const rt::Manifest &manifest);

  const RunOptions &options;
  const rt::Plan &plan;
  rt::Session &session;
  rt::InputSource &inputs;
  std::string path;
  rt::FolderLock lock; ///< held by the process of rank 0
  std::unique_ptr<rt::CheckpointWriter> writer;
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_CHECKPOINTS_H
