#include "runtime/checkpoint/ShardFile.h"

#include "runtime/base/OneLine.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>

namespace dpc::rt {

static constexpr int64_t kDigits = 16; ///< of hashText()

static int64_t blocksOf(int64_t bytes) {
  return (bytes + kHashBlock - 1) / kHashBlock;
}

static std::string hashBlock(const char *data, int64_t bytes, int64_t block) {
  int64_t begin = block * kHashBlock;
  return hashText(
      {data + begin, static_cast<size_t>(std::min(kHashBlock, bytes - begin))});
}

Status writeShardFile(const std::string &path,
                      const std::vector<ShardBytes> &shards) {
  std::vector<SafetensorsWriter::Entry> entries;
  std::map<std::string, std::string> hashes;
  auto bytesOf = [](const ShardBytes &shard) {
    return numElements(shard.shape) * sizeOf(shard.dtype);
  };
  for (const ShardBytes &shard : shards) {
    entries.push_back({shard.name, shard.dtype, shard.shape});
    std::string &digits = hashes[shard.name];
    int64_t bytes = bytesOf(shard);
    for (int64_t block = 0; block < blocksOf(bytes); ++block)
      digits += hashBlock(static_cast<const char *>(shard.data), bytes, block);
  }
  SafetensorsWriter writer;
  DPC_TRY(writer.start(path, entries, hashes));
  for (const ShardBytes &shard : shards)
    DPC_TRY(writer.append(shard.data, bytesOf(shard)));
  return writer.finish();
}

static SavedFile describeOpen(const SafetensorsFile &file) {
  return {file.file.size(),
          hashText({file.file.data(), static_cast<size_t>(file.headerBytes)})};
}

Expected<SavedFile> describeShardFile(const std::string &path) {
  DPC_ASSIGN(SafetensorsFile file, openSafetensors(path));
  return describeOpen(file);
}

Expected<std::shared_ptr<ShardFile>>
ShardFile::open(const std::string &path, const SavedFile &expected) {
  DPC_ASSIGN(SafetensorsFile file, openSafetensors(path));
  SavedFile found = describeOpen(file);
  if (found.bytes != expected.bytes)
    return Status::invalid(path, ": has ", found.bytes,
                           " bytes, the manifest says ", expected.bytes);
  if (found.headerHash != expected.headerHash)
    return Status::invalid(
        path, ": its header has a wrong checksum: the file was changed");
  auto self = std::make_shared<ShardFile>();
  for (auto &[name, entry] : file.entries)
    self->shards[name] = {entry, file.metadata[name],
                          std::vector<bool>(blocksOf(entry.bytes), false)};
  self->file = std::move(file);
  return self;
}

Status ShardFile::checkBlock(const std::string &tensor, Shard &shard,
                             int64_t block) {
  {
    std::lock_guard lock(mutex);
    if (shard.isChecked[block])
      return Status::success();
  }
  std::string found = hashBlock(file.file.data() + shard.entry.offset,
                                shard.entry.bytes, block);
  if (shard.hashes.compare(block * kDigits, kDigits, found) != 0)
    return Status::invalid(file.file.path(), ": tensor '", oneLine(tensor),
                           "': the checksum of the bytes from ",
                           shard.entry.offset + block * kHashBlock,
                           " on is wrong: the file was changed");
  std::lock_guard lock(mutex);
  shard.isChecked[block] = true;
  return Status::success();
}

Expected<const char *> ShardFile::read(const std::string &tensor, int64_t bytes,
                                       int64_t offset, int64_t count) {
  auto it = shards.find(tensor);
  if (it == shards.end() || it->second.entry.bytes != bytes ||
      it->second.hashes.size() != size_t(blocksOf(bytes) * kDigits))
    return Status::invalid(file.file.path(), ": has no tensor '",
                           oneLine(tensor), "' of ", bytes, " bytes");
  assert(offset >= 0 && count >= 0 && offset + count <= bytes);
  if (count > 0)
    for (int64_t block = offset / kHashBlock;
         block <= (offset + count - 1) / kHashBlock; ++block)
      DPC_TRY(checkBlock(tensor, it->second, block));
  return file.file.data() + it->second.entry.offset + offset;
}

void ShardFile::giveBack(const std::string &tensor, int64_t offset,
                         int64_t count) const {
  if (auto it = shards.find(tensor); it != shards.end())
    file.file.dropPages(it->second.entry.offset + offset, count);
}

} // namespace dpc::rt
