//===- MappedFile.h - read-only mappings of files ---------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dpc::rt {

/// Maps a file read-only. Copies share the mapping. A mapping needs no memory
/// besides the page cache.
class MappedFile {
public:
  static Expected<MappedFile> open(const std::string &path);

  const char *data() const { return bytes.get(); }
  int64_t size() const { return length; }
  const std::string &path() const { return name; }
  void dropPages() const { dropPages(0, length); }
  /// Lets the system reclaim the pages. A later access reads them again.
  void dropPages(int64_t offset, int64_t count) const;

private:
  std::shared_ptr<const char> bytes;
  int64_t length = 0;
  std::string name;
};

} // namespace dpc::rt
