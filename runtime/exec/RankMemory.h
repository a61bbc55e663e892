//===- RankMemory.h - the three memory spaces of a rank ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_RANKMEMORY_H
#define DPC_RUNTIME_EXEC_RANKMEMORY_H

#include "runtime/io/OffloadFile.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// One block for all buffers of a rank, 2 MiB aligned, in huge pages where the
/// system has them. Every page is touched, because a page fault inside a step
/// costs more than the work on the page. The page after the block is protected.
class Arena {
public:
  /// Fills the block with `fill` (0xff bytes are NaN in every float type). Call
  /// this from the thread that will use the block.
  static Expected<Arena> create(int64_t bytes, unsigned char fill);

  char *at(int64_t offset) const { return base.get() + offset; }
  int64_t size() const { return length; }

private:
  std::shared_ptr<char> base;
  int64_t length = 0;
};

/// Device, host and disk, each exactly as large as the plan says for the rank's
/// stage.
class RankMemory {
public:
  RankMemory() = default;

  /// Fills device and host with `fill`, see Arena. The file lies in folder
  /// `offloadDir`; there is no file when the plan keeps nothing on disk.
  static Expected<RankMemory> create(const Plan &plan, int rank,
                                     unsigned char fill,
                                     const std::string &offloadDir);

  const Arena &device() const { return deviceArena; }

  /// The bytes of a buffer that is not in a frame; null for a buffer on disk.
  char *data(const Buffer &buffer) const;
  /// Copies all of a buffer, in any space, out or in. Fails when the disk does.
  Status read(const Buffer &buffer, void *to) const;
  Status write(const Buffer &buffer, const void *from) const;

private:
  Arena deviceArena, hostArena;
  OffloadFile disk;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_RANKMEMORY_H
