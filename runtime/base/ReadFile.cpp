#include "runtime/base/ReadFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dpc::rt {

Expected<InputFile> InputFile::open(const std::string &path) {
  // Without O_NONBLOCK, opening a named pipe without a writer would block.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return Status::notFound(path, ": ", std::strerror(errno));
  InputFile file;
  file.handle = std::shared_ptr<const int>(new int(fd), [](const int *held) {
    close(*held);
    delete held;
  });
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return Status::io(path, ": is not a regular file");
  file.length = info.st_size;
  file.name = path;
  return file;
}

Status InputFile::read(int64_t offset, int64_t bytes, void *to) const {
  for (int64_t done = 0; done < bytes;) {
    ssize_t now = pread(*handle, static_cast<char *>(to) + done, bytes - done,
                        offset + done);
    if (now < 0 && errno == EINTR)
      continue;
    if (now < 0)
      return Status::io(name, ": cannot be read at byte ", offset + done, ": ",
                        std::strerror(errno));
    if (now == 0)
      return Status::io(name, ": ends at byte ", offset + done, ", but had ",
                        length, " bytes when it was opened: it was truncated");
    done += now;
  }
  return Status::success();
}

Expected<std::string> readFile(const std::string &path, int64_t limit) {
  DPC_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > limit)
    return Status::invalid(path, ": has ", file.size(),
                           " bytes, expected at most ", limit);
  std::string text(file.size(), '\0');
  DPC_TRY(file.read(0, file.size(), text.data()));
  return text;
}

} // namespace dpc::rt

namespace dpc {

Expected<std::string> readTextFile(const std::string &path,
                                   const std::string &expected) {
  constexpr int64_t kMaxMebibytes = 64;
  Expected<rt::InputFile> file = rt::InputFile::open(path);
  if (file && file->size() > kMaxMebibytes << 20)
    return Error{path + ": has " + std::to_string(file->size()) +
                 " bytes; expected " + expected + " of at most " +
                 std::to_string(kMaxMebibytes) + " MiB"};
  std::string text(file ? file->size() : 0, '\0');
  if (!file || !file->read(0, file->size(), text.data()))
    return Error{path + ": cannot be read; expected " + expected};
  return text;
}

} // namespace dpc
