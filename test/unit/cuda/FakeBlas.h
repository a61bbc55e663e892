//===- FakeBlas.h - cuBLASLt on streams of the fake runtime -----*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_FAKEBLAS_H
#define DPC_TEST_UNIT_CUDA_FAKEBLAS_H

#include "runtime/cuda/BlasApi.h"

#include <vector>

namespace dpc::rt::test {

/// The table with the fake functions. A product is turned back into that of
/// row-major matrices and given to the CPU's runMatmul, on its stream.
BlasApi fakeBlasApi();

/// The routines of every product, in the heuristic's order: what they take, in
/// microseconds, with the first handle that was made since. That which is first
/// with it is second with the next, and so on, so that ranks which choose for
/// themselves choose differently.
void setFakeRoutines(std::vector<double> microseconds);
/// By handle that was made since: the routine of its last product, from 0.
std::vector<int> lastFakeRoutines();
/// How many products were done since.
int fakeProducts();

/// From now on what is said of every epilogue: CUBLAS_STATUS_SUCCESS, or a word
/// for "there is none".
void refuseFakeEpilogues(cublasStatus_t how);

/// Makes what DeviceKernels loads kernels of the fake runtime.
void addRuntimeKernels();

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKEBLAS_H
