//===- ReadFile.h - careful reading of untrusted files ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_READFILE_H
#define DPC_RUNTIME_BASE_READFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dpc::rt {

/// A regular file, open for reading. Copies share the file. Named pipes,
/// devices and other kinds of files are refused, because reading them could
/// block.
class InputFile {
public:
  /// Fails with NotFound and the system's reason, or with Io if the path is not
  /// a regular file.
  static Expected<InputFile> open(const std::string &path);

  /// Reads `bytes` bytes from `offset`. Fails if the file has become shorter or
  /// if the disk fails. (With a memory mapping, either would end the process.)
  Status read(int64_t offset, int64_t bytes, void *to) const;

  int descriptor() const { return *handle; }
  /// The size in bytes at the time of opening.
  int64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  std::shared_ptr<const int> handle;
  int64_t length = 0;
  std::string name;
};

/// All bytes of a regular file. Refuses a file of more than `limit` bytes
/// without reading it.
Expected<std::string> readFile(const std::string &path, int64_t limit);

} // namespace dpc::rt

namespace dpc {

/// The bytes of a regular file of at most 64 MiB. Other files fail with "PATH:
/// cannot be read; expected EXPECTED".
Expected<std::string> readTextFile(const std::string &path,
                                   const std::string &expected);

} // namespace dpc

#endif // DPC_RUNTIME_BASE_READFILE_H
