//===- OffloadFile.h - disk memory of a rank --------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>

namespace dpc::rt {

/// A file of fixed size for values that a rank offloads to disk. The open file
/// has no name, so the system removes it when the process ends.
class OffloadFile {
public:
  OffloadFile() = default;

  /// Allocates `bytes` bytes in folder `dir`. Fails if the folder is missing or
  /// the disk is full.
  static Expected<OffloadFile> create(const std::string &dir, int rank,
                                      int64_t bytes);

  Status read(int64_t offset, void *to, int64_t bytes) const;
  Status write(int64_t offset, const void *from, int64_t bytes) const;

private:
  template <typename Call, typename Byte>
  Status move(const char *what, Call &&call, int64_t offset, Byte *memory,
              int64_t bytes) const;

  std::shared_ptr<int> file; ///< file descriptor
  std::string path;
};

} // namespace dpc::rt
