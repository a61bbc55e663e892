//===- SaveWeights.h - --save-params and --export ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_SAVEWEIGHTS_H
#define DPC_TOOLS_DPC_RUN_SAVEWEIGHTS_H

#include "runtime/exec/Session.h"
#include "tools/dpc-run/Options.h"

namespace dpc {

/// Writes parameters and moved buffers whole, in fp32, by the names of the
/// model file. Called by all processes; rank 0's writes.
rt::Status saveWeights(const RunOptions &options, const rt::Plan &plan,
                       rt::Session &session);

} // namespace dpc

#endif // DPC_TOOLS_DPC_RUN_SAVEWEIGHTS_H
