//===- FakeAttention.h - attention on streams of the fake runtime -*- C++ -*-=//
//
// Replaces CudnnAttention, whose graphs only the real cuDNN can run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/DeviceCudnn.h"

namespace dpc::rt::test {

/// Computes 16-bit attention with the CPU's loops. Fails for ops that are not
/// prepared, and before allocate() is called.
Expected<std::unique_ptr<DeviceAttention>>
openFakeAttention(const CudaApi &cuda, int device);

/// A failure to inject. All faults except NoLibrary affect only the gradient.
enum class FakeAttentionFault { None, NoLibrary, NoEngine, NoMemory, Run };
void setFakeAttentionFault(FakeAttentionFault fault);

} // namespace dpc::rt::test
