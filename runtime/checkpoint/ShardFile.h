//===- ShardFile.h - a file with the shards of one rank ---------*- C++ -*-===//
//
// A .safetensors file whose "__metadata__" holds the concatenated hashes of
// each tensor's blocks of kHashBlock bytes. To read a part of a shard, a reader
// reads and checks only the blocks that contain this part. The manifest holds
// the hash of the header.
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

/// Returns the manifest entry for a file that has been written.
Expected<SavedFile> describeShardFile(const std::string &path);

/// An open shard file. Safe to use from several threads.
class ShardFile {
public:
  /// Fails if the file does not match `expected`.
  static Expected<std::shared_ptr<ShardFile>> open(const std::string &path,
                                                   const SavedFile &expected);

  /// Checks and returns the `count` bytes at `offset` of a shard. `bytes` is
  /// the size of the shard according to the manifest.
  Expected<const char *> read(const std::string &tensor, int64_t bytes,
                              int64_t offset, int64_t count);
  /// Releases the pages of this range from the process's memory.
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
