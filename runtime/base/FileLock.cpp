#include "runtime/base/FileLock.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace dpc::rt {

void FileLock::release() {
  if (fd >= 0)
    close(fd);
  fd = -1;
}

/// Returns 0 or an errno. The file is open for reading only, because an open
/// writable file prevents a remount of the file system as read-only. NFS locks
/// only writable files, so on NFS the file is opened for writing.
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

bool FileLock::take(const std::string &path, double seconds) {
  release();
  auto limit =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto isTaken = [&] {
    int error = lockFile(fd, path);
    return error == EWOULDBLOCK || error == EINTR;
  };
  while (isTaken()) {
    if (std::chrono::steady_clock::now() > limit)
      return false;
    usleep(20000);
  }
  return true;
}

} // namespace dpc::rt
