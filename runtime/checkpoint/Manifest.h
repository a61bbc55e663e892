//===- Manifest.h - the contents of a checkpoint ----------------*- C++ -*-===//
//
// A checkpoint is a folder step-N with
//
//    rank-R.safetensors   the shards that rank R owns, in the layout of its
//                         memory, with a hash for every block (ShardFile.h)
//    manifest.json        the tensors, their layouts, and the size and header
//                         hash of every shard file
//
// The manifest is written last, when all shard files are on the disk. A folder
// without a manifest is not a checkpoint. The text of a manifest is
// {"checksum": .., "manifest": ..}, so that a truncated manifest is detected.
// Ranks and layouts are those of the plan that wrote the checkpoint. Other
// plans of the same model can also read it (CheckpointReader.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/InputSource.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::rt {

inline constexpr int kCheckpointVersion = 1;

/// See rt::Tensor.
struct SavedTensor {
  std::string name;
  TensorRole role = TensorRole::Parameter;
  std::string of, slot;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< global
  Layout layout;
  int64_t stage = 0;
};

/// Describes rank-R.safetensors. `bytes` is 0 if rank R owns no shard.
struct SavedFile {
  int64_t bytes = 0;
  std::string headerHash; ///< hashText() of the bytes before the data
};

struct Manifest {
  std::string model;
  int64_t step = 0; ///< completed steps
  /// see globalBatchOf()
  int64_t globalBatch = 0;
  DataPosition data; ///< the next sample to read
  /// Of the data that trained the weights (DataProfile::text()), or "".
  std::string profile;
  std::vector<Setting> settings; ///< of the plan; older manifests have none
  Mesh mesh;
  std::vector<SavedTensor> tensors;
  std::vector<SavedFile> files; ///< by rank

  bool owns(int64_t rank, const SavedTensor &tensor) const {
    return ownsShard(tensor.layout, mesh, rank, 0, tensor.stage);
  }
};

/// The result has no step, and `files` has empty entries.
Manifest manifestOf(const Plan &plan);

/// Returns the number of samples per step over all ranks: the first extent of
/// the first input that is not a scalar, or 0 if every input is a scalar.
int64_t globalBatchOf(const Plan &plan);

std::string manifestText(const Manifest &manifest);
/// Parses untrusted `text`. Errors begin with `path`.
Expected<Manifest> parseManifest(const std::string &text,
                                 const std::string &path);

/// "rank-3.safetensors"
std::string shardFileName(int64_t rank);

} // namespace dpc::rt
