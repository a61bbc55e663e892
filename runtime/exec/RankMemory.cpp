#include "runtime/exec/RankMemory.h"

#include <cstring>

namespace dpc::rt {

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
