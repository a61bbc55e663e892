//===- ArenaPacking.h - Offsets of buffers in one arena ---------*- C++ -*-===//
//
// Buffers that are never live together may share bytes. Finding the smallest
// arena is NP-hard. No arena is smaller than the maximum number of bytes that
// are live at one step (arenaLowerBound). Training steps write buffers in the
// forward pass and read them in reverse order in the backward pass, so live
// ranges nest. For training steps, the arena is within 2 % of the bound if
// buffers are placed one after the other, each at the lowest offset where it
// fits. packArena tries several orders and keeps the smallest arena.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <vector>

namespace dpc::codegen {

/// A buffer is live at the steps first..last, both included.
struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

/// The offset of each buffer, which is a multiple of the alignment, and the
/// size of the arena.
struct ArenaLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// The maximum total size of the buffers that are live at one step. Each size
/// is rounded up to a multiple of `alignment`.
int64_t arenaLowerBound(const std::vector<Lifetime> &buffers,
                        int64_t alignment = 64);

/// Places all buffers. Equal inputs give equal layouts.
ArenaLayout packArena(const std::vector<Lifetime> &buffers,
                      int64_t alignment = 64);

} // namespace dpc::codegen
