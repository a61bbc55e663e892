//===- SaveWeights.h - --save-params and --export ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_SAVEWEIGHTS_H
#define DPC_RUNTIME_JOB_SAVEWEIGHTS_H

#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Writes all parameters, and the buffers that steps change, in fp32 under
/// their names in the model. Called by all processes; the process of rank 0
/// writes.
Status saveWeights(const RunOptions &options, const rt::Plan &plan,
                   rt::Session &session);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SAVEWEIGHTS_H
