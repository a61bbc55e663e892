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

  /// Creates the folder, fills the session's tensors from the requested
  /// checkpoint, and moves the data to its position. Returns the number of
  /// completed steps, or -1 if there is no checkpoint; the tensors are not
  /// filled then.
  Expected<int64_t> begin();
  /// The checkpoint that begin() found, or "".
  const std::string &from() const { return path; }
  /// Called after each step: saves when it is time. `isLast`: the run ends
  /// here.
  Status afterStep(int64_t step, bool isLast);
  /// Waits until the current checkpoint is written.
  Status finish();
  /// The signal that this or another process received; 0: none. All processes
  /// get the same value. Fails when a background checkpoint failed in any
  /// process.
  Expected<int> stoppedBy();

  /// Whether all processes know that one has failed to write a checkpoint.
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
