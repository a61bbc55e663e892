//===- FakeCudnn.h - cuDNN on streams of the fake runtime -------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_FAKECUDNN_H
#define DPC_TEST_UNIT_CUDA_FAKECUDNN_H

#include "runtime/cuda/DeviceCudnn.h"

namespace dpc::rt::test {

/// Convolutions through the fake functions, which use the CPU's runConv. Only
/// the fourth of their routines is acceptable; with any other, a convolution
/// fails.
Expected<std::unique_ptr<DeviceConvs>> openFakeCudnn(const CudaApi &cuda);

/// Sets whether no routine is acceptable, or the fourth one again.
void refuseFakeRoutines(bool refuse);
/// Sets whether there are no 16-bit routines for tensor cores, or some again.
void refuseFakeTensorCores(bool refuse);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKECUDNN_H
