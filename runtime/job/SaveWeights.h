//===- SaveWeights.h - --save-params and --export ---------------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Writes all parameters, and the buffers that steps change, as fp32 under
/// their names in the model. All processes call this; rank 0 writes.
Status saveWeights(const RunOptions &options, const rt::Plan &plan,
                   rt::Session &session);

} // namespace dpc
