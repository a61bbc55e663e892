//===- Measure.h - --measure-links and --measure-device ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_MEASURE_H
#define DPC_RUNTIME_JOB_MEASURE_H

#include "runtime/base/Status.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Measures all_reduce between the ranks of `options` (threads, or the
/// processes of mpirun); the first rank writes `options.measureLinks`. With
/// several hosts that have several ranks each, the groups consist of the ranks
/// at the same place of each host. All groups run at once, like the collectives
/// of a mesh axis between hosts. Links inside a host are measured on one host.
Status measureLinks(const RunOptions &options);

/// Measures the GPU of this process (runtime/exec/MeasureDevice.h) and writes
/// `options.measureDevice`.
Status measureDevice(const RunOptions &options);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_MEASURE_H
