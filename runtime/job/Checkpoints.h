//===- Checkpoints.h - --checkpoint and --resume ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_CHECKPOINTS_H
#define DPC_RUNTIME_JOB_CHECKPOINTS_H

#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/checkpoint/FolderLock.h"
#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

#include <memory>

namespace dpc {

/// What a run saves and where it goes on. All calls are made by all processes.
class Checkpoints {
public:
  Checkpoints(const RunOptions &options, const rt::Plan &plan,
              rt::Session &session, rt::InputSource &inputs)
      : options(options), plan(plan), session(session), inputs(inputs) {}

  /// Makes the folder, fills the session's tensors from the checkpoint that is
  /// asked for, and lets the data go on from it. Returns the steps that are
  /// done; -1: there is none, and the tensors are not filled.
  Expected<int64_t> begin();
  /// The checkpoint that begin() found, "" for none.
  const std::string &from() const { return path; }
  /// After each step: saves when it is time. `isLast`: the run ends here.
  Status afterStep(int64_t step, bool isLast);
  /// Waits for what is being written.
  Status finish();
  /// The signal that came, here or to another process; 0: none. The same
  /// everywhere. Fails where a checkpoint in the background failed anywhere.
  Expected<int> stoppedBy();

  /// Whether all processes know that one has failed to write a checkpoint.
  bool areAgreed() const { return writer && writer->areAgreed(); }

private:
  Expected<std::string> chooseFolder() const;
  std::string otherChoice() const;
  Status checkNewest(const rt::CheckpointFolder &folder) const;
  Expected<std::string> prepare();
  Status goOnInData(const rt::Manifest &manifest);

  const RunOptions &options;
  const rt::Plan &plan;
  rt::Session &session;
  rt::InputSource &inputs;
  std::string path;
  rt::FolderLock lock; ///< of rank 0's process
  std::unique_ptr<rt::CheckpointWriter> writer;
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_CHECKPOINTS_H
