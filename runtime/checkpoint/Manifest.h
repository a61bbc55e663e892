//===- Manifest.h - what a checkpoint holds ---------------------*- C++ -*-===//
//
// A checkpoint is a folder step-N with
//
//   rank-R.safetensors   the shards that rank R owns, as they lie in its
//   memory,
//                        with a hash for every block of each (ShardFile.h)
//   manifest.json        which tensors there are, how they are laid out, and
//   the
//                        size and header hash of every file
//
// Written last, the manifest makes the folder a checkpoint: what it names was
// on the disk before it was. It is written as {"checksum": .., "manifest": ..},
// so that a torn one is no manifest. Ranks and layouts are those of the plan
// that wrote it; any plan of the same model reads it (CheckpointReader.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CHECKPOINT_MANIFEST_H
#define DPC_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/io/InputSource.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::rt {

/// The checkpoint format this build writes and reads.
inline constexpr int kCheckpointVersion = 1;

/// A tensor of the plan that wrote the checkpoint; see rt::Tensor.
struct SavedTensor {
  std::string name;
  TensorRole role = TensorRole::Parameter;
  std::string of, slot;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< global
  Layout layout;
  int64_t stage = 0; ///< whose ranks hold it
};

/// rank-R.safetensors, or bytes = 0: rank R owns nothing.
struct SavedFile {
  int64_t bytes = 0;
  std::string headerHash; ///< of the file up to its data, hashText()
};

struct Manifest {
  std::string model;
  int64_t step = 0; ///< steps that are done
  /// Samples of a step over all ranks; 0 when the plan has no input.
  int64_t globalBatch = 0;
  DataPosition data; ///< where the data stands after `step`
  Mesh mesh;
  std::vector<SavedTensor> tensors;
  std::vector<SavedFile> files; ///< by rank

  /// Whether `rank` wrote a shard of `tensor`.
  bool owns(int64_t rank, const SavedTensor &tensor) const {
    return ownsShard(tensor.layout, mesh, rank, 0, tensor.stage);
  }
};

/// What a checkpoint of `plan` holds, without step and files.
Manifest manifestOf(const Plan &plan);

/// Samples of a step: the leading extent of the plan's first input.
int64_t globalBatchOf(const Plan &plan);

std::string manifestText(const Manifest &manifest);
/// Nothing in `text` is trusted. Errors begin with `path`.
Expected<Manifest> parseManifest(const std::string &text,
                                 const std::string &path);

/// "rank-3.safetensors"
std::string shardFileName(int64_t rank);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_MANIFEST_H
