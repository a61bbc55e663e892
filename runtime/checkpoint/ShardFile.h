//===- ShardFile.h - a file with the shards of one rank ---------*- C++ -*-===//
//
// A shard file is a .safetensors file. The "__metadata__" in its header has a
// hash for every block of kHashBlock bytes in each tensor, so that a reader can
// check a part of a shard without reading the whole shard. The manifest has the
// hash of the header.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/io/Safetensors.h"

#include <mutex>

namespace dpc::rt {

inline constexpr int64_t kHashBlock = 256 << 10;

struct ShardBytes {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< local
  const void *data = nullptr;
};

/// Writes `path` and waits until it is on the disk.
Status writeShardFile(const std::string &path,
                      const std::vector<ShardBytes> &shards);

/// Returns the manifest entry of a complete file.
Expected<SavedFile> describeShardFile(const std::string &path);

/// Safe to use from several threads.
class ShardFile {
public:
  /// Fails if the size or the header differs from `expected`.
  static Expected<std::shared_ptr<ShardFile>> open(const std::string &path,
                                                   const SavedFile &expected);

  /// Returns the `count` bytes at `offset` of a shard after checking the hashes
  /// of their blocks. Fails if the shard does not have `bytes` bytes.
  Expected<const char *> read(const std::string &tensor, int64_t bytes,
                              int64_t offset, int64_t count);
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
