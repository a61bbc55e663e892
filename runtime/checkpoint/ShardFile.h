//===- ShardFile.h - the shards of one rank in a file -----------*- C++ -*-===//
//
// A .safetensors file whose "__metadata__" holds, for every tensor, the hashes
// of its blocks of kHashBlock bytes, one after the other. A reader that needs a
// part of a shard checks the blocks which that part touches, and reads no more.
// The header itself is vouched for by the manifest.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CHECKPOINT_SHARDFILE_H
#define DPC_RUNTIME_CHECKPOINT_SHARDFILE_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/io/Safetensors.h"

#include <mutex>

namespace dpc::rt {

inline constexpr int64_t kHashBlock = 256 << 10;

/// A tensor's shard in memory.
struct ShardBytes {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< local
  const void *data = nullptr;
};

/// Writes `path` and waits until it is on the disk.
Status writeShardFile(const std::string &path,
                      const std::vector<ShardBytes> &shards);

/// What the manifest says of a file that was written.
Expected<SavedFile> describeShardFile(const std::string &path);

/// A shard file that is being read. Safe to use from several threads.
class ShardFile {
public:
  /// Fails, naming the file, when it is not the one that `expected` describes.
  static Expected<std::shared_ptr<ShardFile>> open(const std::string &path,
                                                   const SavedFile &expected);

  /// `count` bytes from `offset` of a shard on, checked; `bytes` is the size of
  /// the whole shard, as the manifest has it.
  Expected<const char *> read(const std::string &tensor, int64_t bytes,
                              int64_t offset, int64_t count);
  /// The pages of what was read there count no more as memory of the process.
  void giveBack(const std::string &tensor, int64_t offset, int64_t count) const;

private:
  struct Shard {
    SafetensorsEntry entry;
    std::string hashes; ///< 16 digits for each block
    std::vector<bool> isChecked;
  };
  Status checkBlock(const std::string &tensor, Shard &shard, int64_t block);

  SafetensorsFile file;
  std::mutex mutex; ///< guards isChecked
  std::map<std::string, Shard> shards;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_SHARDFILE_H
