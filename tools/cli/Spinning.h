//===- Spinning.h - limit of spinning in OpenMP threads ---------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_SPINNING_H
#define DPC_TOOLS_CLI_SPINNING_H

namespace dpc {

/// The threads of a GEMM wait for each other by spinning, 300,000 rounds by
/// default. That wastes milliseconds per GEMM whenever another process uses the
/// core. Sets a lower limit and starts this program a second time, because
/// libgomp reads the limit while it is loaded. Does nothing if the environment
/// sets a limit.
void limitSpinning(char **argv);

} // namespace dpc

#endif // DPC_TOOLS_CLI_SPINNING_H
