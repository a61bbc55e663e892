//===- FakeBlas.h - cuBLASLt on streams of the fake runtime -----*- C++ -*-===//
#pragma once

#include "runtime/cuda/BlasApi.h"

#include <vector>

namespace dpc::rt::test {

BlasApi fakeBlasApi();

/// Sets how many microseconds each routine takes, in the order of the
/// heuristic, for the first handle that is created afterwards. For each further
/// handle, the list is rotated by one, so that another routine is the fastest.
void setFakeRoutines(std::vector<double> microseconds);
/// Returns the last routine of each handle created since setFakeRoutines().
std::vector<int> lastFakeRoutines();
/// Returns the number of GEMMs since setFakeRoutines().
int fakeGemms();

/// Sets the status of all GEMMs with epilogues.
void refuseFakeEpilogues(cublasStatus_t how);

/// Adds fakes of all kernels of DeviceKernels.
void addRuntimeKernels();
/// Adds those of the products of experts (FakeExperts.cpp).
void addExpertKernels();

} // namespace dpc::rt::test
