//===- StartValues.h - the values with which a run begins -------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"
#include "runtime/io/InitialValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/job/Checkpoints.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// The values of tensors at the begin of a run: those of the checkpoint that
/// `checkpoints` has read, or the initial ones. All processes make all calls.
struct StartValues {
  const RunOptions &options;
  const rt::Plan &plan;
  const rt::InitChoice &init;
  rt::Session &session;
  Checkpoints &checkpoints;

  Status fill() const;
};

/// With --last-batch=mask, checks that the loss ignores samples that only fill
/// a step (MaskCheck.h), with the data of the first such step after `done`.
/// Returns true if this has changed the tensors.
Expected<bool> checkLastBatch(const StartValues &start, rt::InputSource &inputs,
                              int64_t done);

} // namespace dpc
