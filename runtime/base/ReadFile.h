//===- ReadFile.h - files of others, read with care -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_READFILE_H
#define DPC_RUNTIME_BASE_READFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dpc::rt {

/// A regular file, open to be read; copies share it. What is none, such as a
/// named pipe or a device, is refused rather than waited for.
class InputFile {
public:
  /// NotFound with the system's reason, or Io where it is no regular file.
  static Expected<InputFile> open(const std::string &path);

  /// Its bytes from `offset` on. That the file became shorter since, or a disk
  /// that fails, is an error here, where a mapping would end the process.
  Status read(int64_t offset, int64_t bytes, void *to) const;

  int descriptor() const { return *handle; }
  /// Bytes when it was opened.
  int64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  std::shared_ptr<const int> handle;
  int64_t length = 0;
  std::string name;
};

/// All bytes of a regular file; one with more than `limit` is refused unread.
Expected<std::string> readFile(const std::string &path, int64_t limit);

} // namespace dpc::rt

namespace dpc {

/// The bytes of a regular file of at most 64 MiB, which no description of a
/// machine exceeds. Any failure is one line:
/// "PATH: cannot be read; expected EXPECTED".
Expected<std::string> readTextFile(const std::string &path,
                                   const std::string &expected);

} // namespace dpc

#endif // DPC_RUNTIME_BASE_READFILE_H
