//===- RankMemory.h - the three memory spaces of a rank ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_RANKMEMORY_H
#define DPC_RUNTIME_EXEC_RANKMEMORY_H

#include "runtime/io/OffloadFile.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// One block of memory for the buffers of a rank, in huge pages if the system
/// has them. All pages are touched when the block is created, because a page
/// fault in a step would cost more than the work on the page. The page after
/// the block is protected.
class Arena {
public:
  /// Fills the block with `fill` (0xff bytes are NaN in every float type).
  /// Called by the thread that uses the block.
  static Expected<Arena> create(int64_t bytes, unsigned char fill);

  char *at(int64_t offset) const { return base.get() + offset; }
  int64_t size() const { return length; }

private:
  std::shared_ptr<char> base;
  int64_t length = 0;
};

/// The device, host and disk memory of a rank, with the sizes in the plan.
class RankMemory {
public:
  RankMemory() = default;

  /// Fills device and host memory with the byte `fill`, see Arena. If the plan
  /// uses disk memory, creates its file in `offloadDir`.
  static Expected<RankMemory> create(const Plan &plan, int rank,
                                     unsigned char fill,
                                     const std::string &offloadDir);

  const Arena &device() const { return deviceArena; }

  /// The bytes of a buffer that is not in a frame; null for a buffer on disk.
  char *data(const Buffer &buffer) const;
  /// Copies all of a buffer in any space. Fails if the disk fails.
  Status read(const Buffer &buffer, void *to) const;
  Status write(const Buffer &buffer, const void *from) const;

private:
  Arena deviceArena, hostArena;
  OffloadFile disk;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_RANKMEMORY_H
