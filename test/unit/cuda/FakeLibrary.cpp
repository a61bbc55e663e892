// The fakes as a library, whose kernels exist from the start.
#include "test/unit/cuda/FakeBlas.h"

namespace {
struct Start {
  Start() { dpc::rt::test::addRuntimeKernels(); }
} start;
} // namespace
