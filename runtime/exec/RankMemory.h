//===- RankMemory.h - the three memory spaces of a rank ---------*- C++ -*-===//
#pragma once

#include "runtime/io/OffloadFile.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// A block of memory for buffers, in huge pages if possible. Creating the block
/// touches all pages, because page faults would slow down the steps. The page
/// after the block is protected, to detect overruns.
class Arena {
public:
  /// Fills the block with the byte `fill`. Call it in the thread that uses the
  /// block, so that the pages are close to its core.
  static Expected<Arena> create(int64_t bytes, unsigned char fill);

  char *at(int64_t offset) const { return base.get() + offset; }
  int64_t size() const { return length; }

private:
  std::shared_ptr<char> base;
  int64_t length = 0;
};

class RankMemory {
public:
  RankMemory() = default;

  /// Fills device and host memory with the byte `fill`. Creates a file in
  /// `offloadDir` if the plan uses disk memory.
  static Expected<RankMemory> create(const Plan &plan, int rank,
                                     unsigned char fill,
                                     const std::string &offloadDir);

  const Arena &device() const { return deviceArena; }

  /// Returns null for a buffer on disk. The buffer must not be in a frame.
  char *data(const Buffer &buffer) const;
  /// Copies a buffer from any space. Fails if the disk fails.
  Status read(const Buffer &buffer, void *to) const;
  Status write(const Buffer &buffer, const void *from) const;

private:
  Arena deviceArena, hostArena;
  OffloadFile disk;
};

} // namespace dpc::rt
