//===- SaveWeights.h - --save-params and --export ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_SAVEWEIGHTS_H
#define DPC_RUNTIME_JOB_SAVEWEIGHTS_H

#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Writes parameters and moved buffers whole, in fp32, by the names of the
/// model file. Called by all processes; rank 0's writes.
Status saveWeights(const RunOptions &options, const rt::Plan &plan,
                       rt::Session &session);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SAVEWEIGHTS_H
