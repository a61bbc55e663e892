//===- Fp8Checks.h - Whether fp8 is what the user gets ----------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_FP8CHECKS_H
#define DPC_TOOLS_DRIVER_FP8CHECKS_H

#include "cost-model/machine/Cluster.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Why `options` ask for fp8 where there is none, or "". CPUs, whose device
/// files know no type of 16 bits either, have the runtime's loops.
std::string whyNoFp8(const CompileOptions &options,
                     const cost::Cluster &cluster);

/// What to say of a plan that fp8 was asked for and that has some, or not; or
/// "".
std::string remarkOnFp8(const CompileOptions &options, bool hasFp8);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_FP8CHECKS_H
