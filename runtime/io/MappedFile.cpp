#include "runtime/io/MappedFile.h"

#include "runtime/base/ReadFile.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace dpc::rt {

Expected<MappedFile> MappedFile::open(const std::string &path) {
  DPC_ASSIGN(InputFile opened, InputFile::open(path));
  MappedFile file;
  file.name = path;
  file.length = opened.size();
  if (file.length > 0) {
    void *base = mmap(nullptr, file.length, PROT_READ, MAP_PRIVATE,
                      opened.descriptor(), 0);
    if (base == MAP_FAILED)
      return Status::io(path, ": cannot be mapped: ", std::strerror(errno));
    int64_t length = file.length;
    file.bytes = std::shared_ptr<const char>(
        static_cast<const char *>(base),
        [length](const char *p) { munmap(const_cast<char *>(p), length); });
  }
  return file;
}

void MappedFile::dropPages(int64_t offset, int64_t count) const {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  int64_t begin = offset / page * page;
  if (count > 0)
    madvise(const_cast<char *>(bytes.get()) + begin, offset + count - begin,
            MADV_DONTNEED);
}

} // namespace dpc::rt
