//===- CheckpointReader.h - reading tensors from a checkpoint ---*- C++ -*-===//
//
// Any plan of the same model can read a checkpoint. Each rank assembles its
// shards from the saved shards, and reads only the parts that it needs
// (base/Reshard.h). If the plan that wrote the checkpoint has the same layouts,
// saved shards are copied unchanged.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/checkpoint/ShardFile.h"
#include "runtime/io/InitialValues.h"

#include <map>
#include <memory>

namespace dpc::rt {

/// Safe to use from several threads.
class CheckpointReader : public ValueSource {
public:
  /// `path` is the folder of a checkpoint, such as DIR/step-N.
  static Expected<std::unique_ptr<CheckpointReader>>
  open(const std::string &path);

  const Manifest &manifest() const { return saved; }
  /// From now on, fill() refuses NaN and +infinity in weights.
  void refuseNan() { refusesNan = true; }

  /// Reads all shards and checks their hashes. Fails at the first damaged or
  /// missing part.
  Status verify() const;
  /// Checks that the checkpoint has every tensor of `plan` with the same type
  /// and shape.
  Status check(const Plan &plan) const override;
  /// Returns the names of saved tensors that `plan` does not have. Inference
  /// needs no optimizer states.
  /// With `weightsOnly`, leaves out states, and weights of the model of which
  /// the plan knows that its program does not read them.
  std::vector<std::string> unread(const Plan &plan,
                                  bool weightsOnly = false) const;
  Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
              void *local) const override;

private:
  CheckpointReader(std::string path, Manifest manifest);

  const SavedTensor *find(const Tensor &tensor) const;
  Expected<std::shared_ptr<ShardFile>> fileOf(int64_t rank) const;
  Status take(const SavedTensor &from, int64_t owner, const Tensor &tensor,
              const Mesh &mesh, int rank, char *local) const;

  std::string path;
  Manifest saved;
  bool refusesNan = false;
  std::map<std::string, const SavedTensor *> byName;
  mutable std::mutex mutex; ///< guards `files`
  mutable std::map<int64_t, std::shared_ptr<ShardFile>> files;
};

} // namespace dpc::rt
