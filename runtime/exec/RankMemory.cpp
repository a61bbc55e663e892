#include "runtime/exec/RankMemory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace dpc::rt {

Expected<Arena> Arena::create(int64_t bytes, unsigned char fill) {
  // Fails here, because the kernel would kill a process that fills more memory
  // than the machine has.
  int64_t installed =
      int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
  if (installed > 0 && bytes > installed)
    return Status::unsupported("a rank needs ", bytes,
                               " bytes of memory, this machine has ",
                               installed);
  constexpr int64_t page = 4096, hugePage = 2 << 20;
  int64_t alignment = bytes >= hugePage ? hugePage : page;
  int64_t whole = (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
  int64_t mapped = whole + alignment + page;
  void *raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED)
    return Status::unsupported("cannot get ", bytes,
                               " bytes of memory for a rank");
  auto address = reinterpret_cast<uintptr_t>(raw);
  auto *aligned = reinterpret_cast<char *>((address + alignment - 1) &
                                           ~uintptr_t(alignment - 1));
  mprotect(aligned + whole, page, PROT_NONE);
  // The last part uses small pages, so that its size is not rounded up.
  if (alignment == hugePage)
    madvise(aligned, bytes / hugePage * hugePage, MADV_HUGEPAGE);
  std::memset(aligned, fill, bytes);
  Arena arena;
  arena.length = bytes;
  arena.base = std::shared_ptr<char>(
      aligned, [raw, mapped](char *) { munmap(raw, mapped); });
  return arena;
}

Expected<RankMemory> RankMemory::create(const Plan &plan, int rank,
                                        unsigned char fill,
                                        const std::string &offloadDir) {
  int64_t stage = plan.mesh.stageOf(rank);
  RankMemory memory;
  for (auto [arena, space] : {std::pair(&memory.deviceArena, Space::Device),
                              std::pair(&memory.hostArena, Space::Host)}) {
    DPC_ASSIGN(*arena, Arena::create(plan.bytesOf(space, stage), fill));
  }
  if (int64_t bytes = plan.bytesOf(Space::Disk, stage)) {
    DPC_ASSIGN(memory.disk, OffloadFile::create(offloadDir, rank, bytes));
  }
  return memory;
}

char *RankMemory::data(const Buffer &buffer) const {
  switch (buffer.space) {
  case Space::Device:
    return deviceArena.at(buffer.offset);
  case Space::Host:
    return hostArena.at(buffer.offset);
  case Space::Disk:
    break;
  }
  return nullptr;
}

Status RankMemory::read(const Buffer &buffer, void *to) const {
  if (buffer.space == Space::Disk)
    return disk.read(buffer.offset, to, buffer.bytes);
  std::memcpy(to, data(buffer), buffer.bytes);
  return Status::success();
}

Status RankMemory::write(const Buffer &buffer, const void *from) const {
  if (buffer.space == Space::Disk)
    return disk.write(buffer.offset, from, buffer.bytes);
  std::memcpy(data(buffer), from, buffer.bytes);
  return Status::success();
}

} // namespace dpc::rt
