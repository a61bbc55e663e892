//===- FakeNccl.h - NCCL between streams of the fake runtime ----*- C++ -*-===//
//
// FakeNccl.cpp defines the functions of NcclApi.h with their C names. Ranks are
// threads; a collective occupies its stream until all ranks are there, a send
// until its recv is, as NCCL's do. Sums are taken in the order of the ranks.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_CUDA_FAKENCCL_H
#define DPC_TEST_UNIT_CUDA_FAKENCCL_H

#include "runtime/cuda/NcclApi.h"

namespace dpc::rt::test {

/// The table with the fake functions.
NcclApi fakeNcclApi();

/// From the `calls`-th call on (of all ranks, from now), communicators report
/// ncclRemoteError: what NCCL says when a peer's process has died. 0: never.
void breakFakeNccl(int calls);

/// From now on the ranks of a new world find out that they share a GPU, or
/// again do not.
void refuseFakeNcclWorlds(bool refuse);

/// Groups of calls that had some, since the program began.
int fakeNcclGroups();

/// Communicators that were used or destroyed in a way that NCCL forbids, since
/// the program began.
int fakeNcclMisuses();

/// From now on communicators that are finalized stay in progress, or again come
/// to their end.
void stallFakeNcclEnds(bool stall);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKENCCL_H
