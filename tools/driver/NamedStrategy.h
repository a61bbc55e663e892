//===- NamedStrategy.h - --strategy=@FILE -----------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_NAMEDSTRATEGY_H
#define DPC_TOOLS_DRIVER_NAMEDSTRATEGY_H

#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Where --strategy names a file (a configuration of DeepSpeed, flags of
/// Megatron-LM): puts what it says into `options`, and into its notes what has
/// no effect. Returns "" or a one-line error. Does nothing otherwise, or
/// without a cluster.
std::string readNamedStrategy(CompileOptions &options);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_NAMEDSTRATEGY_H
