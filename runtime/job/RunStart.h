//===- RunStart.h - the first lines of a run --------------------*- C++ -*-===//
#pragma once

#include "runtime/io/InitialValues.h"
#include "runtime/job/DataCheck.h"

namespace dpc {

/// Names of the weights of a plan, by what its instructions change.
struct TrainedWeights {
  std::vector<std::string> trained; ///< parameters that the update writes
  std::vector<std::string> updated; ///< buffers, such as running statistics
  /// Frozen weights, weights without a gradient, and constant buffers.
  std::vector<std::string> kept;
};
TrainedWeights trainedWeights(const rt::Plan &plan);

/// Says what is unusual about the values that --init gives a run that is not
/// resumed.
std::vector<std::string> unusualValues(const RunOptions &options,
                                       const rt::Plan &plan,
                                       const rt::InitChoice &init,
                                       bool isResumed);

struct RunStart {
  const RunOptions &options;
  const rt::Plan &plan;
  rt::InputSource &inputs;
  const rt::InitChoice &init;
  const DataReport &data; ///< from checkData()
  std::string from;       ///< the checkpoint with which it resumes, or ""
  /// The profile of the data that trained the initial values, or "".
  std::string trained;
  std::string skipped; ///< see Checkpoints::skippedText()
  int64_t done = 0;    ///< steps before it
};

/// Returns the lines that say what a run computes, from which data, before its
/// first step.
std::vector<std::string> firstLines(const RunStart &start);

} // namespace dpc
