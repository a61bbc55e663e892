//===- Arena.h - a rank's memory --------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_ARENA_H
#define DPC_RUNTIME_EXEC_ARENA_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>

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

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_ARENA_H
