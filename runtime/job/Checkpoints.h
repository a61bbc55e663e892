//===- Checkpoints.h - --checkpoint and --resume ----------------*- C++ -*-===//
#pragma once

#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

#include <memory>

namespace dpc {

/// Saves and restores the state of a run. All processes make all calls.
class Checkpoints {
public:
  /// `profile` is that of the data of the run, in the process of rank 0.
  Checkpoints(const RunOptions &options, const rt::Plan &plan,
              rt::Session &session, rt::InputSource &inputs,
              std::string profile)
      : options(options), plan(plan), session(session), inputs(inputs),
        profile(std::move(profile)) {}

  /// Creates the folder of --checkpoint. If --resume finds a checkpoint, reads
  /// its tensors into the session, moves the data to its position, and returns
  /// the number of completed steps. Otherwise returns -1 and fills no tensors.
  Expected<int64_t> begin();
  /// Reads the tensors of the checkpoint from() again.
  Status restore();
  /// The checkpoint that begin() has read, or "".
  const std::string &from() const { return path; }
  /// The profile of the data that trained the weights of from(), or "".
  const std::string &trainedProfile() const { return trained; }
  /// Says which newer folders --resume skips, because they are no complete
  /// checkpoints, or "". Only in the process of rank 0.
  const std::string &skippedText() const { return skipped; }
  /// Called after each step. Saves a checkpoint every --checkpoint-every steps
  /// and after the last step.
  Status afterStep(int64_t step, bool isLast);
  Status finish();
  /// What stoppedBy() returns if a process cannot go on.
  static constexpr int kCannotGoOn = -1;
  /// Returns in all processes the signal that one of them has received,
  /// kCannotGoOn if `canGoOn` is false in one of them, or 0. Fails if a
  /// background checkpoint has failed in any process.
  Expected<int> stoppedBy(bool canGoOn);

  bool areAgreed() const { return writer && writer->areAgreed(); }

private:
  Expected<std::string> chooseFolder() const;
  std::string otherChoice() const;
  Status checkNewest(const rt::CheckpointFolder &folder) const;
  Expected<std::string> prepare();
  Expected<std::unique_ptr<rt::CheckpointReader>> open();
  Expected<int64_t> read();
  Status resumeData(const rt::Manifest &manifest);
  void warnOfChanges(const rt::Manifest &manifest) const;

  const RunOptions &options;
  const rt::Plan &plan;
  rt::Session &session;
  rt::InputSource &inputs;
  std::string profile;
  std::string path;
  std::string trained; ///< see trainedProfile()
  std::string skipped; ///< see skippedText()
  rt::FolderLock lock; ///< only in the process of rank 0
  std::unique_ptr<rt::CheckpointWriter> writer;
};

} // namespace dpc
