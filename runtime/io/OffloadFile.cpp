#include "runtime/io/OffloadFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace dpc::rt {

Expected<OffloadFile> OffloadFile::create(const std::string &dir, int rank,
                                          int64_t bytes) {
  OffloadFile file;
  file.path = dir + "/offload-" + std::to_string(rank) + "-XXXXXX";
  int descriptor = mkostemp(file.path.data(), O_CLOEXEC);
  if (descriptor < 0)
    return Status::io(dir, ": no file for offloading can be created there: ",
                      std::strerror(errno),
                      "; --offload-dir names another folder");
  file.file = std::shared_ptr<int>(new int(descriptor), [](int *owned) {
    close(*owned);
    delete owned;
  });
  unlink(file.path.c_str());
  // Allocates all bytes now: otherwise, a full disk would end a later step.
  if (int error = bytes > 0 ? posix_fallocate(descriptor, 0, bytes) : 0)
    return Status::io(file.path, ": cannot allocate ", bytes,
                      " bytes of disk: ", std::strerror(error),
                      "; --offload-dir names another folder");
  return file;
}

/// Repeats call(memory, bytes, offset) until all bytes are transferred.
template <typename Call, typename Byte>
Status OffloadFile::move(const char *what, Call &&call, int64_t offset,
                         Byte *memory, int64_t bytes) const {
  while (bytes > 0) {
    ssize_t done = call(memory, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return Status::io(
          path, ": cannot ", what, " at byte ", offset, ": ",
          (done < 0 ? std::strerror(errno) : "the file ends there"));
    memory += done;
    offset += done;
    bytes -= done;
  }
  return Status::success();
}

Status OffloadFile::read(int64_t offset, void *to, int64_t bytes) const {
  return move(
      "read",
      [&](char *next, int64_t left, int64_t from) {
        return pread(*file, next, left, from);
      },
      offset, static_cast<char *>(to), bytes);
}

Status OffloadFile::write(int64_t offset, const void *from,
                          int64_t bytes) const {
  return move(
      "write",
      [&](const char *next, int64_t left, int64_t to) {
        return pwrite(*file, next, left, to);
      },
      offset, static_cast<const char *>(from), bytes);
}

} // namespace dpc::rt
