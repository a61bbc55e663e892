//===- RunStart.h - the first lines of a run --------------------*- C++ -*-===//
#pragma once

#include "runtime/io/InputSource.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Returns the lines that say what a run computes, from which data, before its
/// first step. `from` is the checkpoint with which it resumes, or "", and
/// `done` the number of steps before it.
std::vector<std::string> firstLines(const RunOptions &options,
                                    const rt::Plan &plan,
                                    const rt::InputSource &inputs,
                                    const std::string &from, int64_t done);

} // namespace dpc
