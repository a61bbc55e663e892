#include "runtime/exec/Arena.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace dpc::rt {

Expected<Arena> Arena::create(int64_t bytes, unsigned char fill) {
  // All pages are touched, so the kernel would kill a process that asks for
  // more memory than there is.
  int64_t installed =
      int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
  if (installed > 0 && bytes > installed)
    return Status(StatusCode::Unsupported,
                  "a rank needs " + std::to_string(bytes) +
                      " bytes of memory, this machine has " +
                      std::to_string(installed));
  constexpr int64_t page = 4096, hugePage = 2 << 20;
  // A small arena would waste most of a huge page.
  int64_t alignment = bytes >= hugePage ? hugePage : page;
  // The page after the last one is protected.
  int64_t whole = (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
  int64_t mapped = whole + alignment + page;
  void *raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED)
    return Status(StatusCode::Unsupported, "cannot get " +
                                               std::to_string(bytes) +
                                               " bytes of memory for a rank");
  auto address = reinterpret_cast<uintptr_t>(raw);
  auto *aligned = reinterpret_cast<char *>((address + alignment - 1) &
                                           ~uintptr_t(alignment - 1));
  mprotect(aligned + whole, page, PROT_NONE);
  // A huge page would round up the tail, so the tail uses small pages.
  if (alignment == hugePage)
    madvise(aligned, bytes / hugePage * hugePage, MADV_HUGEPAGE);
  std::memset(aligned, fill, bytes);
  Arena arena;
  arena.length = bytes;
  arena.base = std::shared_ptr<char>(
      aligned, [raw, mapped](char *) { munmap(raw, mapped); });
  return arena;
}

} // namespace dpc::rt
