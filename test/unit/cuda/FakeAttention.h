//===- FakeAttention.h - attention on streams of the fake runtime -*- C++ -*-=//
//
// In the place of CudnnAttention, whose graphs only cuDNN itself can take
// (CudnnAttentionTest.cpp compiles them).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_CUDA_FAKEATTENTION_H
#define DPC_TEST_UNIT_CUDA_FAKEATTENTION_H

#include "runtime/cuda/DeviceAttention.h"

namespace dpc::rt::test {

/// Gives attention of 16 bits to the CPU's loops. What is not prepared fails,
/// and so does everything before the workspace is there.
Expected<std::unique_ptr<DeviceAttention>>
openFakeAttention(const CudaApi &cuda, int device);

/// What goes wrong from now on; all but NoLibrary with the gradient.
enum class FakeAttentionFault { None, NoLibrary, NoEngine, NoMemory, Run };
void setFakeAttentionFault(FakeAttentionFault fault);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKEATTENTION_H
