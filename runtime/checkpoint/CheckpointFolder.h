//===- CheckpointFolder.h - the checkpoints of a run ------------*- C++ -*-===//
//    DIR/step-200          a checkpoint; it has a manifest DIR/step-300.tmp-TAG
//   is being written or removed, or was left by a failed run; never read
//   DIR/step-100.damaged  a former checkpoint that cannot be read
//
// A folder gets the name step-N after all of its contents are on the disk, and
// loses this name before it is removed. So a folder named step-N is complete
// even if the machine stops at any time.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
#define DPC_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H

#include "runtime/checkpoint/Manifest.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// N of "step-N"; nullopt for any other name.
std::optional<int64_t> stepOf(const std::string &name);

/// The file in a checkpoint's folder that is written last.
inline constexpr const char *kManifestFile = "manifest.json";

class CheckpointFolder {
public:
  explicit CheckpointFolder(std::string dir) : dir(std::move(dir)) {}

  const std::string &path() const { return dir; }
  /// DIR/step-N
  std::string checkpoint(int64_t step) const;
  /// DIR/step-N.tmp-TAG
  std::string unfinished(int64_t step, const std::string &tag) const;

  /// Creates DIR. Fails with the reason when nothing can be written there.
  Status prepare() const;
  /// Removes the unfinished folders of failed runs. Must not be called while
  /// another process writes a checkpoint.
  Status removeUnfinished() const;
  /// Steps of complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// Writes the manifest into an unfinished folder that has all other files,
  /// and renames the folder to a checkpoint. Replaces a checkpoint of the same
  /// step.
  Status publish(const Manifest &manifest, const std::string &tag) const;
  /// Renames a damaged checkpoint, so that readers ignore it.
  Status setAside(int64_t step) const;
  /// Removes all but the newest `keep` checkpoints.
  Status prune(int64_t keep) const;

private:
  Status remove(int64_t step) const;

  std::string dir;
};

/// A lock on DIR/.lock, which keeps other runs from writing to a folder of
/// checkpoints. The system releases the lock when the process ends in any way.
/// The lock has no effect on file systems without locks.
class FolderLock {
public:
  FolderLock() = default;
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock();

  /// Takes the lock. Waits up to `seconds` for another run to end, then fails.
  Status take(const std::string &dir, double seconds);

private:
  int fd = -1;
};

/// The manifest of the checkpoint in folder `path`.
Expected<Manifest> readManifest(const std::string &path);

/// Waits until the changes to the entries of a folder are on the disk.
Status syncFolder(const std::string &path);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
