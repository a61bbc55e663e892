//===- RunStart.h - the first lines of a run --------------------*- C++ -*-===//
#pragma once

#include "runtime/io/InitialValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Names of the weights of a plan, by what its instructions change.
struct TrainedWeights {
  std::vector<std::string> trained; ///< parameters that the update writes
  std::vector<std::string> updated; ///< buffers, such as running statistics
  /// Frozen weights, weights without a gradient, and constant buffers.
  std::vector<std::string> kept;
};
TrainedWeights trainedWeights(const rt::Plan &plan);

/// Returns the lines that say what a run computes, from which data, before its
/// first step. `from` is the checkpoint with which it resumes, or "", and
/// `done` the number of steps before it.
std::vector<std::string> firstLines(const RunOptions &options,
                                    const rt::Plan &plan,
                                    const rt::InputSource &inputs,
                                    const rt::InitChoice &init,
                                    const std::string &from, int64_t done);

} // namespace dpc
