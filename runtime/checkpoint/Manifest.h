//===- Manifest.h - the contents of a checkpoint ----------------*- C++ -*-===//
//
// A checkpoint is a folder step-N with
//
//   rank-R.safetensors   the shards that rank R owns, laid out as in its
//                        memory, with a hash for every block (ShardFile.h)
//   manifest.json        the tensors, their layouts, and the size and header
//                        hash of every file
//
// The manifest is written last, when all other files are on the disk. A folder
// is a checkpoint only if it has a manifest. Its text is {"checksum": ..,
// "manifest": ..}, so truncated manifests are refused. Ranks and layouts are
// those of the plan that wrote the checkpoint. Any plan of the same model can
// read it (CheckpointReader.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CHECKPOINT_MANIFEST_H
#define DPC_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/io/InputSource.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::rt {

/// The checkpoint format that this build writes and reads.
inline constexpr int kCheckpointVersion = 1;

/// A tensor of the plan that wrote the checkpoint; see rt::Tensor.
struct SavedTensor {
  std::string name;
  TensorRole role = TensorRole::Parameter;
  std::string of, slot;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< global
  Layout layout;
  int64_t stage = 0; ///< the pipeline stage that holds it
};

/// The file rank-R.safetensors; `bytes` is 0 if rank R owns no shard.
struct SavedFile {
  int64_t bytes = 0;
  std::string headerHash; ///< hashText() of the file up to its data
};

struct Manifest {
  std::string model;
  int64_t step = 0; ///< completed steps
  /// The number of samples per step over all ranks; 0 if the plan has no input.
  int64_t globalBatch = 0;
  DataPosition data; ///< the position in the data after `step`
  Mesh mesh;
  std::vector<SavedTensor> tensors;
  std::vector<SavedFile> files; ///< by rank

  /// Whether `rank` wrote a shard of `tensor`.
  bool owns(int64_t rank, const SavedTensor &tensor) const {
    return ownsShard(tensor.layout, mesh, rank, 0, tensor.stage);
  }
};

/// Returns a manifest for `plan` without step and files.
Manifest manifestOf(const Plan &plan);

/// The number of samples per step: the first extent of the first input that is
/// not a scalar; 0 if there is no such input.
int64_t globalBatchOf(const Plan &plan);

std::string manifestText(const Manifest &manifest);
/// Parses untrusted `text`. Errors begin with `path`.
Expected<Manifest> parseManifest(const std::string &text,
                                 const std::string &path);

/// "rank-3.safetensors"
std::string shardFileName(int64_t rank);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CHECKPOINT_MANIFEST_H
