//===- CheckpointFolder.h - the checkpoints of a run ------------*- C++ -*-===//
//
//   DIR/step-200          a checkpoint; it has a manifest
//   DIR/step-300.tmp-TAG  one that is being written or removed, or that a run
//                         which died left behind; never read
//   DIR/step-100.damaged  what was a checkpoint and cannot be read
//
// A folder is renamed from the one to the other when all it holds is on the
// disk, and back before it is removed, so a checkpoint is complete whenever the
// machine stops.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
#define DPC_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H

#include "runtime/checkpoint/Manifest.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// N of "step-N", and nullopt for any other name.
std::optional<int64_t> stepOf(const std::string &name);

/// In a checkpoint's folder, written last.
inline constexpr const char *kManifestFile = "manifest.json";

class CheckpointFolder {
public:
  explicit CheckpointFolder(std::string dir) : dir(std::move(dir)) {}

  const std::string &path() const { return dir; }
  /// DIR/step-N
  std::string checkpoint(int64_t step) const;
  /// DIR/step-N.tmp-TAG
  std::string unfinished(int64_t step, const std::string &tag) const;

  /// Makes DIR, and says why when nothing can be written there.
  Status prepare() const;
  /// Removes what runs that died left behind. Nobody else may be writing.
  Status removeUnfinished() const;
  /// Steps of complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// Writes the manifest into an unfinished folder that holds all else, and
  /// makes it a checkpoint. One of the same step is replaced.
  Status publish(const Manifest &manifest, const std::string &tag) const;
  /// Renames a damaged checkpoint, so that it is none any more.
  Status setAside(int64_t step) const;
  /// Removes all but the newest `keep`.
  Status prune(int64_t keep) const;

private:
  Status remove(int64_t step) const;

  std::string dir;
};

/// The manifest of the checkpoint in folder `path`.
Expected<Manifest> readManifest(const std::string &path);

/// Waits until what was done to the entries of a folder is on the disk.
Status syncFolder(const std::string &path);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
