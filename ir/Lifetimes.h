//===- Lifetimes.h - Until when buffers of a step are in use ----*- C++ -*-===//
// The memory estimate (passes/price) and plans (codegen/plan) find the
// lifetimes of buffers with this code. The estimate counts time in ops, and a
// plan counts it in instructions. A lifetime is any type with the members
// `bytes`, `first` and `last`: the buffer is live from `first` to `last`, both
// included.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dpc {

inline int64_t alignedBytes(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return llvm::divideCeil(bytes, kAlignment) * kAlignment;
}

/// Stores when one queue last accessed each buffer.
class LastAccesses {
public:
  /// Adds an access at `time`. Times must increase.
  template <class Ids>
  void add(const Ids &readBuffers, const Ids &writtenBuffers, int64_t time) {
    for (int64_t id : readBuffers)
      reads[id] = time;
    for (int64_t id : writtenBuffers)
      writes[id] = time;
  }
  /// Returns the time of the last access that must end before another queue may
  /// read `readBuffers` and write `writtenBuffers`; -1 if there is none.
  template <class Ids>
  int64_t lastConflict(const Ids &readBuffers,
                       const Ids &writtenBuffers) const {
    int64_t last = -1;
    auto include = [&](const llvm::DenseMap<int64_t, int64_t> &accesses,
                       int64_t id) {
      if (auto it = accesses.find(id); it != accesses.end())
        last = std::max(last, it->second);
    };
    for (int64_t id : readBuffers)
      include(writes, id);
    for (int64_t id : writtenBuffers) {
      include(writes, id);
      include(reads, id);
    }
    return last;
  }

private:
  llvm::DenseMap<int64_t, int64_t> reads, writes;
};

/// Extends `life` if it overlaps the loop over micro-batches, which runs from
/// `begin` to `end`. If the buffer is written before the loop, it stays live
/// until the loop ends, because each micro-batch reads it. If phases of several
/// micro-batches alternate (`isMixed`) and the buffer is read after the loop,
/// it is live from `begin` on.
template <class Life>
void extendOverLoop(Life &life, int64_t begin, int64_t end, bool isMixed) {
  if (life.last < begin || life.first > end)
    return;
  if (life.first < begin)
    life.last = std::max(life.last, end);
  if (isMixed && life.last > end)
    life.first = std::min(life.first, begin);
}

/// Places buffers into gaps of a frame: bytes that are free while the buffer is
/// live.
class FrameGaps {
public:
  explicit FrameGaps(int64_t frameBytes) : frameBytes(frameBytes) {}

  template <class Life> void occupy(int64_t offset, const Life &life) {
    occupied.push_back(
        {offset, offset + alignedBytes(life.bytes), life.first, life.last});
  }
  /// Places each of the buffers `ids` at the lowest free offset, the largest
  /// first. Calls `placed(id, offset)` for each buffer that fits. `lives` is
  /// indexed by id.
  template <class Lives, class Placed>
  void fill(llvm::SmallVector<int64_t> ids, const Lives &lives, Placed placed) {
    llvm::sort(ids, [&](int64_t a, int64_t b) {
      return std::pair(-lives[a].bytes, a) < std::pair(-lives[b].bytes, b);
    });
    for (int64_t id : ids)
      if (int64_t offset = place(lives[id]); offset >= 0)
        placed(id, offset);
  }

private:
  /// Returns the lowest offset where the buffer fits, and marks it as occupied.
  /// Returns -1 if the buffer fits nowhere.
  template <class Life> int64_t place(const Life &life) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Occupied &other : occupied)
      if (other.first <= life.last && life.first <= other.last)
        taken.emplace_back(other.begin, other.end);
    llvm::sort(taken);
    int64_t offset = 0, size = alignedBytes(life.bytes);
    for (auto [begin, end] : taken) {
      if (begin - offset >= size)
        break;
      offset = std::max(offset, end);
    }
    if (offset + size > frameBytes)
      return -1;
    occupy(offset, life);
    return offset;
  }

  struct Occupied {
    int64_t begin, end, first, last;
  };
  int64_t frameBytes;
  std::vector<Occupied> occupied;
};

} // namespace dpc
