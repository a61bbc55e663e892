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
  // Allocates all bytes now, so that a full disk does not end the run later.
  if (int error = bytes > 0 ? posix_fallocate(descriptor, 0, bytes) : 0)
    return Status::io(file.path, ": cannot allocate ", bytes,
                      " bytes of disk: ", std::strerror(error),
                      "; --offload-dir names another folder");
  return file;
}

Status OffloadFile::failed(const char *what, int64_t offset, int error) const {
  return Status::io(path, ": cannot ", what, " at byte ", offset, ": ",
                    (error ? std::strerror(error) : "the file ends there"));
}

Status OffloadFile::read(int64_t offset, void *to, int64_t bytes) const {
  for (char *next = static_cast<char *>(to); bytes > 0;) {
    ssize_t done = pread(*file, next, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return failed("read", offset, done < 0 ? errno : 0);
    next += done;
    offset += done;
    bytes -= done;
  }
  return Status::success();
}

Status OffloadFile::write(int64_t offset, const void *from,
                          int64_t bytes) const {
  for (const char *next = static_cast<const char *>(from); bytes > 0;) {
    ssize_t done = pwrite(*file, next, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return failed("write", offset, done < 0 ? errno : 0);
    next += done;
    offset += done;
    bytes -= done;
  }
  return Status::success();
}

} // namespace dpc::rt
