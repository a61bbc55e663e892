#include "runtime/base/WriteFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dpc::rt {

static Status cannotWrite(const std::string &path, const std::string &why) {
  return Status::io(path, ": cannot be written: ", why);
}

Status writeFile(const std::string &path, const std::string &text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  // The stream may fail without a system call that sets errno.
  return out ? Status::success()
             : cannotWrite(path, std::strerror(errno ? errno : EIO));
}

Status replaceFile(const std::string &path, const std::string &text) {
  std::string beside = path + ".new";
  DPC_TRY(writeFile(beside, text));
  return std::rename(beside.c_str(), path.c_str()) == 0
             ? Status::success()
             : cannotWrite(path, std::strerror(errno));
}

Status writeDurably(const std::string &path, const std::string &text) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0)
    return cannotWrite(path, std::strerror(errno));
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
  return isFine ? Status::success() : cannotWrite(path, std::strerror(error));
}

Status checkWritable(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (path.empty())
    return Status::success();
  if (fs::is_directory(path, code))
    return cannotWrite(path, "it is a folder");
  bool exists = fs::exists(path, code);
  std::FILE *file = std::fopen(path.c_str(), "ab");
  if (!file)
    return cannotWrite(path, std::strerror(errno));
  std::fclose(file);
  if (!exists)
    fs::remove(path, code);
  return Status::success();
}

Status makeFolder(const std::string &path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  return code ? Status::io(path, ": cannot be created: ", code.message())
              : Status::success();
}

} // namespace dpc::rt
