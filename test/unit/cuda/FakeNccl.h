//===- FakeNccl.h - NCCL between streams of the fake runtime ----*- C++ -*-===//
//
// FakeNccl.cpp defines the functions of NcclApi.h with their C names. Ranks are
// threads. As in NCCL, a collective blocks its stream until all ranks have
// joined, and a send blocks its stream until the recv runs. Sums are in the
// order of the ranks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/NcclApi.h"

namespace dpc::rt::test {

NcclApi fakeNcclApi();

/// From the `calls`-th call on, counted over all ranks, communicators report
/// that the process of a peer has ended. 0 turns this off.
void breakFakeNccl(int calls);

/// Sets whether connecting fails because two ranks share a GPU.
void refuseFakeNcclWorlds(bool refuse);

/// Returns how many NCCL groups had calls since the program started.
int fakeNcclGroups();

/// Returns how many calls since the program started were forbidden by NCCL.
int fakeNcclMisuses();

/// Sets whether ncclCommFinalize never completes.
void stallFakeNcclEnds(bool stall);

} // namespace dpc::rt::test
