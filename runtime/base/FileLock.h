//===- FileLock.h - a file that one process uses ----------------*- C++ -*-===//
#pragma once

#include <string>

namespace dpc::rt {

/// The system releases the lock when the process ends. On a file system without
/// locks, the lock has no effect.
class FileLock {
public:
  FileLock() = default;
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;
  ~FileLock() { release(); }

  /// Creates the file `path` if it does not exist. Waits up to `seconds` for
  /// another process to release the lock. Returns false if it does not.
  bool take(const std::string &path, double seconds);
  void release();

private:
  int fd = -1;
};

} // namespace dpc::rt
