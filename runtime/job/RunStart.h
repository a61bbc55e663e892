//===- RunStart.h - the first lines of a run --------------------*- C++ -*-===//
#pragma once

#include "runtime/job/DataCheck.h"

namespace dpc {

/// Returns the lines that say what a run computes, from which data, before its
/// first step. `data` comes from checkData(). `from` is the checkpoint with
/// which it resumes, or "", and `done` the number of steps before it.
std::vector<std::string> firstLines(const RunOptions &options,
                                    const rt::Plan &plan,
                                    rt::InputSource &inputs,
                                    const DataReport &data,
                                    const std::string &from, int64_t done);

} // namespace dpc
