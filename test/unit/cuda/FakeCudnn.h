//===- FakeCudnn.h - cuDNN on streams of the fake runtime -------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_FAKECUDNN_H
#define DPC_TEST_UNIT_CUDA_FAKECUDNN_H

#include "runtime/cuda/DeviceConvs.h"

namespace dpc::rt::test {

/// Convolutions through the fake functions, which give them to the CPU's
/// runConv. Of the routines that they name the fourth alone may be taken; with
/// any other a convolution fails.
Expected<std::unique_ptr<DeviceConvs>> openFakeCudnn(const CudaApi &cuda);

/// From now on no routine may be taken, or again the fourth.
void refuseFakeRoutines(bool refuse);
/// From now on there are none for tensor cores, of 16 bits, or again some.
void refuseFakeTensorCores(bool refuse);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKECUDNN_H
