#include "runtime/base/WriteFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace dpc::rt {

Status writeDurably(const std::string &path, const std::string &text) {
  auto refuse = [&](int error) {
    return Status::io(path, ": cannot be written: ", std::strerror(error));
  };
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0)
    return refuse(errno);
  size_t done = 0;
  bool isFine = true;
  while (isFine && done < text.size()) {
    ssize_t now = write(fd, text.data() + done, text.size() - done);
    isFine = now >= 0 || errno == EINTR;
    done += now > 0 ? now : 0;
  }
  isFine = isFine && fsync(fd) == 0;
  int error = errno;
  close(fd);
  return isFine ? Status::success() : refuse(error);
}

} // namespace dpc::rt
