#include "runtime/checkpoint/FolderLock.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace dpc::rt {

FolderLock::~FolderLock() {
  if (fd >= 0)
    close(fd);
}

/// Locks a file that is open for reading, because a file that is open for
/// writing keeps the file system from becoming read-only. NFS locks only files
/// that are open for writing, so there the file is reopened.
static int lockFile(int &fd, const std::string &path) {
  if (fd < 0)
    fd = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0)
    return 0;
  if (errno != EBADF || fd < 0)
    return errno;
  close(fd);
  fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

Status FolderLock::take(const std::string &dir, double seconds) {
  auto limit =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto isTaken = [&] {
    int error = lockFile(fd, dir + "/.lock");
    return error == EWOULDBLOCK || error == EINTR;
  };
  while (isTaken()) {
    if (std::chrono::steady_clock::now() > limit)
      return Status::invalid(dir, ": another run writes its checkpoints "
                                  "there; choose another folder");
    usleep(20000);
  }
  return Status::success();
}

} // namespace dpc::rt
