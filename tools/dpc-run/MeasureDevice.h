//===- MeasureDevice.h - dpc-run --measure-device ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_MEASUREDEVICE_H
#define DPC_TOOLS_DPC_RUN_MEASUREDEVICE_H

#include "runtime/base/Status.h"
#include "tools/dpc-run/Options.h"

namespace dpc {

/// Measures this process' GPU (runtime/exec/MeasureDevice.h) and writes
/// `options.measureDevice`.
rt::Status measureDevice(const RunOptions &options);

} // namespace dpc

#endif // DPC_TOOLS_DPC_RUN_MEASUREDEVICE_H
