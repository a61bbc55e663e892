//===- FakeNccl.h - NCCL between streams of the fake runtime ----*- C++ -*-===//
//
// FakeNccl.cpp defines the functions of NcclApi.h with their C names. Ranks are
// threads. A collective blocks its stream until all ranks have arrived, and a
// send blocks until its recv arrives, as in NCCL. Sums are taken in the order
// of the ranks.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_CUDA_FAKENCCL_H
#define DPC_TEST_UNIT_CUDA_FAKENCCL_H

#include "runtime/cuda/NcclApi.h"

namespace dpc::rt::test {

/// The table of fake functions.
NcclApi fakeNcclApi();

/// From the `calls`-th call of all ranks on, communicators report
/// ncclRemoteError, NCCL's error when the process of a peer has died. 0: never.
void breakFakeNccl(int calls);

/// Sets whether the ranks of a new world detect that they share a GPU.
void refuseFakeNcclWorlds(bool refuse);

/// The number of groups with calls since the start of the program.
int fakeNcclGroups();

/// The number of communicators that were used or destroyed in a way that NCCL
/// forbids, since the start of the program.
int fakeNcclMisuses();

/// Sets whether finalized communicators stay in progress instead of finishing.
void stallFakeNcclEnds(bool stall);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKENCCL_H
