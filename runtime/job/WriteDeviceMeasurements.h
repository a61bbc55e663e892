//===- WriteDeviceMeasurements.h - dpc-run --measure-device -----*- C++ -*-===//
// C++ -*-===//
#ifndef DPC_RUNTIME_JOB_WRITEDEVICEMEASUREMENTS_H
#define DPC_RUNTIME_JOB_WRITEDEVICEMEASUREMENTS_H

#include "runtime/base/Status.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Measures the GPU of this process (runtime/exec/MeasureDevice.h) and writes
/// `options.measureDevice`.
Status measureDevice(const RunOptions &options);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_WRITEDEVICEMEASUREMENTS_H
