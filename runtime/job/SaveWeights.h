//===- SaveWeights.h - --save-params and --export ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_SAVEWEIGHTS_H
#define DPC_RUNTIME_JOB_SAVEWEIGHTS_H

#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Writes whole parameters and moved buffers in fp32, under the names of the
/// model file. Called by all processes; the process of rank 0 writes.
Status saveWeights(const RunOptions &options, const rt::Plan &plan,
                   rt::Session &session);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SAVEWEIGHTS_H
