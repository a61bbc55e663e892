//===- CheckpointFolder.h - the checkpoints of a run ------------*- C++ -*-===//
//
// A folder DIR of checkpoints contains
//
//    step-200          a complete checkpoint
//    step-300.tmp-TAG  an unfinished folder, which readers ignore: a run is
//                      writing or removing it, or has failed
//    step-100.damaged  a checkpoint that could not be read
//
// A checkpoint is written as step-N.tmp-TAG, and renamed to step-N after all of
// its files are on the disk. To remove a checkpoint, its folder is first
// renamed to step-N.tmp-old. So a folder named step-N is always complete, even
// if the machine stops.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/FileLock.h"
#include "runtime/checkpoint/Manifest.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// Returns N for the name "step-N", and nullopt for any other name.
std::optional<int64_t> stepOf(const std::string &name);

/// The last file that is written into the folder of a checkpoint.
inline constexpr const char *kManifestFile = "manifest.json";

class CheckpointFolder {
public:
  explicit CheckpointFolder(std::string dir) : dir(std::move(dir)) {}

  const std::string &path() const { return dir; }
  /// DIR/step-N
  std::string checkpoint(int64_t step) const;
  /// DIR/step-N.tmp-TAG
  std::string unfinished(int64_t step, const std::string &tag) const;

  /// Creates DIR. Fails if no file can be written there.
  Status prepare() const;
  /// Removes the unfinished folders of failed runs. Must not be called while
  /// another process writes a checkpoint.
  Status removeUnfinished() const;
  /// Returns the steps of all complete checkpoints in ascending order.
  std::vector<int64_t> steps() const;
  /// Describes each folder of a later step than `step` that is no complete
  /// checkpoint: "DIR/step-300 (it has no manifest.json)".
  std::vector<std::string> skippedAfter(int64_t step) const;
  /// Completes the folder unfinished(): writes the manifest and renames the
  /// folder to checkpoint(). Replaces a checkpoint of the same step.
  Status publish(const Manifest &manifest, const std::string &tag) const;
  /// Renames a damaged checkpoint, so that readers ignore it.
  Status setAside(int64_t step) const;
  /// Removes all but the newest `keep` checkpoints.
  Status prune(int64_t keep) const;

private:
  Status remove(int64_t step) const;

  std::string dir;
};

/// Locks DIR/.lock, so that only one run writes checkpoints to DIR.
class FolderLock {
public:
  /// Waits up to `seconds` for another run to release the lock, then fails.
  Status take(const std::string &dir, double seconds);

private:
  FileLock lock;
};

/// Reads the manifest of the checkpoint in folder `path`.
Expected<Manifest> readManifest(const std::string &path);

/// Syncs a folder, so that created, renamed and removed files survive a crash.
Status syncFolder(const std::string &path);

} // namespace dpc::rt
