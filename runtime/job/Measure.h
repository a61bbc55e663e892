//===- Measure.h - --measure-links and --measure-device ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_MEASURE_H
#define DPC_RUNTIME_JOB_MEASURE_H

#include "runtime/base/Status.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Measures all_reduce between ranks (threads, or the processes of mpirun). The
/// first rank writes `options.measureLinks`. On several hosts with several
/// ranks each, the groups of peersAcrossHosts() communicate at the same time,
/// as they do for a mesh axis that spans hosts. To measure the links inside a
/// host, run on one host.
Status measureLinks(const RunOptions &options);

/// Measures the GPU of this process (runtime/exec/MeasureDevice.h) and writes
/// `options.measureDevice`.
Status measureDevice(const RunOptions &options);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_MEASURE_H
