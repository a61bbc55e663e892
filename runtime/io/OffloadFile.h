//===- OffloadFile.h - disk memory of a rank --------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_OFFLOADFILE_H
#define DPC_RUNTIME_IO_OFFLOADFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>

namespace dpc::rt {

/// A file of fixed size for the values that a rank keeps on disk while it runs.
/// It has no name from the start, so it disappears when the process ends in any
/// way.
class OffloadFile {
public:
  OffloadFile() = default;

  /// Allocates `bytes` bytes of disk in folder `dir` for `rank`. Fails with the
  /// path and the system's reason when the folder is missing or full.
  static Expected<OffloadFile> create(const std::string &dir, int rank,
                                      int64_t bytes);

  /// Moves `bytes` bytes between `offset` and memory. Fails with the path, the
  /// offset and the system's reason.
  Status read(int64_t offset, void *to, int64_t bytes) const;
  Status write(int64_t offset, const void *from, int64_t bytes) const;

private:
  Status failed(const char *what, int64_t offset, int error) const;

  std::shared_ptr<int> file; ///< descriptor
  std::string path;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_OFFLOADFILE_H
