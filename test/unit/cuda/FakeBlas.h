//===- FakeBlas.h - cuBLASLt on streams of the fake runtime -----*- C++ -*-===//
#ifndef DPC_TEST_UNIT_CUDA_FAKEBLAS_H
#define DPC_TEST_UNIT_CUDA_FAKEBLAS_H

#include "runtime/cuda/BlasApi.h"

#include <vector>

namespace dpc::rt::test {

/// The table of fake functions. A GEMM is converted back to row-major matrices
/// and computed by the CPU's runMatmul, on its stream.
BlasApi fakeBlasApi();

/// Sets the routines of every GEMM, in the order of the heuristic, as durations
/// in microseconds for the first handle created afterwards. Each further handle
/// has a list rotated by one, so ranks that choose independently choose
/// differently.
void setFakeRoutines(std::vector<double> microseconds);
/// By handle created since: the index of the routine of its last GEMM.
std::vector<int> lastFakeRoutines();
/// The number of GEMMs computed since.
int fakeGemms();

/// Sets the status of every epilogue from now on: CUBLAS_STATUS_SUCCESS, or an
/// error for "not available".
void refuseFakeEpilogues(cublasStatus_t how);

/// Registers the kernels of DeviceKernels with the fake runtime.
void addRuntimeKernels();

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKEBLAS_H
