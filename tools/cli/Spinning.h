//===- Spinning.h - limit of spinning in OpenMP threads ---------*- C++ -*-===//
#pragma once

namespace dpc {

/// Limits how long the threads of a GEMM spin while they wait for each other.
/// With the default of 300,000 rounds, each GEMM loses milliseconds whenever
/// another process uses the core. Sets a lower limit in the environment and
/// restarts this program, because libgomp reads the limit while it is loaded.
/// Does nothing if the environment already sets a limit.
void limitSpinning(char **argv);

} // namespace dpc
