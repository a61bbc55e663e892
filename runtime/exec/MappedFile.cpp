#include "runtime/exec/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dpc::rt {

Expected<MappedFile> MappedFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return Status::notFound(path + ": " + std::strerror(errno));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::io(path + ": is not a regular file");
  }
  MappedFile file;
  file.name = path;
  file.length = info.st_size;
  if (file.length > 0) {
    void *base = mmap(nullptr, file.length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) {
      close(fd);
      return Status::io(path + ": cannot be mapped: " + std::strerror(errno));
    }
    int64_t length = file.length;
    file.bytes = std::shared_ptr<const char>(
        static_cast<const char *>(base),
        [length](const char *p) { munmap(const_cast<char *>(p), length); });
  }
  close(fd);
  return file;
}

void MappedFile::dropPages() const {
  if (length > 0)
    madvise(const_cast<char *>(bytes.get()), length, MADV_DONTNEED);
}

} // namespace dpc::rt
