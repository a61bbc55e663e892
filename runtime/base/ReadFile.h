//===- ReadFile.h - careful reading of untrusted files ----------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dpc::rt {

/// A regular file, open for reading; copies share it. Named pipes and devices
/// are refused, because reading them could block.
class InputFile {
public:
  /// Fails with NotFound and the system's reason, or with Io if the path is not
  /// a regular file.
  static Expected<InputFile> open(const std::string &path);

  /// Reads `bytes` bytes at `offset`. Fails if the file has become shorter or
  /// if the disk fails. (Files are not mapped into memory, because both
  /// failures would then end the process.)
  Status read(int64_t offset, int64_t bytes, void *to) const;

  int descriptor() const { return *handle; }
  /// Returns the size in bytes when the file was opened.
  int64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  std::shared_ptr<const int> handle;
  int64_t length = 0;
  std::string name;
};

/// Returns the contents of a regular file of at most `limit` bytes.
Expected<std::string> readFile(const std::string &path, int64_t limit);

} // namespace dpc::rt

namespace dpc {

/// Like readFile() with a limit of 64 MiB. Errors are "PATH: cannot be read;
/// expected EXPECTED".
Expected<std::string> readTextFile(const std::string &path,
                                   const std::string &expected);

} // namespace dpc
