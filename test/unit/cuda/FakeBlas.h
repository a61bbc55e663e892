//===- FakeBlas.h - cuBLASLt on streams of the fake runtime -----*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_FAKEBLAS_H
#define DPC_TEST_UNIT_CUDA_FAKEBLAS_H

#include "runtime/cuda/BlasApi.h"

namespace dpc::rt::test {

/// The table with the fake functions. A product is turned back into that of
/// row-major matrices and given to the CPU's runMatmul, on its stream.
BlasApi fakeBlasApi();

/// Makes dpcReduce and dpcFill kernels of the fake runtime.
void addRuntimeKernels();

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKEBLAS_H
