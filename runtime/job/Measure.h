//===- Measure.h - --measure-links and --measure-device ---------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Measures all_reduce between ranks, which are threads or the processes of
/// mpirun. Rank 0 writes `options.measureLinks`. On one host, measures the
/// links inside the host. On several hosts, measures the links between hosts:
/// the groups of peersAcrossHosts() communicate concurrently, as for a mesh
/// axis that spans hosts.
Status measureLinks(const RunOptions &options);

/// Measures the GPU of this process and writes `options.measureDevice`.
Status measureDevice(const RunOptions &options);

} // namespace dpc
