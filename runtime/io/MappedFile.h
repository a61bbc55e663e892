//===- MappedFile.h - read-only mappings of files ---------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_MAPPEDFILE_H
#define DPC_RUNTIME_IO_MAPPEDFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dpc::rt {

/// A read-only mapping of a whole file. Copies share the mapping. The pages are
/// in the page cache, so a mapping needs no other memory.
class MappedFile {
public:
  /// Fails with NotFound and the system's reason.
  static Expected<MappedFile> open(const std::string &path);

  const char *data() const { return bytes.get(); }
  int64_t size() const { return length; }
  const std::string &path() const { return name; }
  /// Releases the resident pages.
  void dropPages() const { dropPages(0, length); }
  /// Releases the pages of `count` bytes from `offset`.
  void dropPages(int64_t offset, int64_t count) const;

private:
  std::shared_ptr<const char> bytes;
  int64_t length = 0;
  std::string name;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_MAPPEDFILE_H
