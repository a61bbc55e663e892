//===- SaveTrace.h - --trace and --profile ----------------------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Writes the trace and the profile of a run of `steps` steps, if the options
/// ask for them. All processes call it.
Status saveTrace(const RunOptions &options, const rt::Plan &plan,
                 rt::Session &session, int64_t steps);

} // namespace dpc
