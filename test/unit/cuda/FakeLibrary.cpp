// Registers the runtime's kernels when the library of the fakes is loaded.
#include "test/unit/cuda/FakeBlas.h"

namespace {
struct Start {
  Start() { dpc::rt::test::addRuntimeKernels(); }
} start;
} // namespace
