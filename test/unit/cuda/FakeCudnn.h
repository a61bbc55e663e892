//===- FakeCudnn.h - cuDNN on streams of the fake runtime -------*- C++ -*-===//
#pragma once

#include "runtime/cuda/DeviceCudnn.h"

namespace dpc::rt::test {

/// Convolutions call runConv. They fail with any routine except the last.
Expected<std::unique_ptr<DeviceConvs>> openFakeCudnn(const CudaApi &cuda);

/// Sets whether the fake omits the acceptable routine.
void refuseFakeRoutines(bool refuse);
/// Sets whether the fake omits acceptable routines that use tensor cores.
void refuseFakeTensorCores(bool refuse);

} // namespace dpc::rt::test
