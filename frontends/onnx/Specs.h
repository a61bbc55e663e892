//===- Specs.h - Reader and writer of ShardingSpecs -------------*- C++ -*-===//
//
// A ShardingSpecProto lists one device per shard of a tensor, in row-major
// order of the sharded dimensions. A negative number instead of a device is the
// key of a group of devices that hold replicas.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/ModelFile.h"
#include "ir/Sharding.h"

namespace dpc::frontend {

/// Writes shardings over the ranks of a mesh.
class SpecWriter {
public:
  explicit SpecWriter(MeshAttr mesh);

  /// Writes `spec` to `out` as a sharding over the devices of virtual stage
  /// `stage`, or over all devices if `stage` is not set.
  void write(const ShardingSpec &spec, std::optional<int64_t> stage,
             ::onnx::ShardingSpecProto &out) const;

private:
  MeshAttr mesh;
  std::vector<llvm::SmallVector<int64_t, 4>> coordinates; ///< Of each device.
};

struct ReadSpec {
  /// A sharded dimension and its number of shards. A dimension with
  /// several sharded factors has one split per factor.
  struct Split {
    int64_t dim;
    int64_t shards;
  };
  std::vector<Split> splits;
  /// For each device that has a shard, the index of that shard along each of
  /// the `splits`.
  std::map<int64_t, std::vector<int64_t>> places;
};

/// Reads the spec of a tensor of rank `rank` over `devices` devices. Fails if
/// the spec is contradictory.
llvm::Expected<ReadSpec> readSpec(const ::onnx::ShardingSpecProto &spec,
                                  int64_t rank, int64_t devices);

} // namespace dpc::frontend
