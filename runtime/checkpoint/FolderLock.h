//===- FolderLock.h - one run at a time in a folder -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_CHECKPOINT_FOLDERLOCK_H
#define DPC_RUNTIME_CHECKPOINT_FOLDERLOCK_H

#include "runtime/base/Status.h"

namespace dpc::rt {

/// Keeps other runs from writing to a folder of checkpoints by a lock on
/// DIR/.lock. The system releases the lock however the process ends. On a file
/// system without locks it has no effect.
class FolderLock {
public:
  FolderLock() = default;
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock();

  /// Takes the lock; waits up to `seconds` for a run that is about to end.
  Status take(const std::string &dir, double seconds);

private:
  int fd = -1;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_FOLDERLOCK_H
