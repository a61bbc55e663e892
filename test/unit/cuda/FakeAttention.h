//===- FakeAttention.h - attention on streams of the fake runtime -*- C++ -*-=//
//
// This replaces CudnnAttention, whose graphs only the real cuDNN can run
// (CudnnAttentionTest.cpp compiles them).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_CUDA_FAKEATTENTION_H
#define DPC_TEST_UNIT_CUDA_FAKEATTENTION_H

#include "runtime/cuda/DeviceCudnn.h"

namespace dpc::rt::test {

/// Computes 16-bit attention with the CPU's loops. Fails for ops that are not
/// prepared, and before the workspace is allocated.
Expected<std::unique_ptr<DeviceAttention>>
openFakeAttention(const CudaApi &cuda, int device);

/// The failures to inject from now on; all but NoLibrary affect the gradient.
enum class FakeAttentionFault { None, NoLibrary, NoEngine, NoMemory, Run };
void setFakeAttentionFault(FakeAttentionFault fault);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKEATTENTION_H
