//===- CommConformance.h - tests for every communicator ---------*- C++ -*-===//
#pragma once

#include "runtime/comm/Communicator.h"

#include <functional>
#include <vector>

namespace dpc::rt::test {

/// Runs body(comm) on every rank of a new world. Each test program defines this
/// function: ranks are threads, or the processes that mpirun started.
void onRanks(int ranks, double timeoutSeconds,
             const std::function<void(Communicator &)> &body);
std::vector<int> worldSizes();

} // namespace dpc::rt::test
