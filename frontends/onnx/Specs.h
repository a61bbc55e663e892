//===- Specs.h - Reader and writer of ShardingSpecs -------------*- C++ -*-===//
//
// A ShardingSpecProto lists a device for every shard of a tensor, in row-major
// order of its sharded dimensions. A negative key instead of a device names a
// group of devices that hold replicas.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_SPECS_H
#define DPC_FRONTENDS_ONNX_SPECS_H

#include "frontends/onnx/ModelFile.h"
#include "ir/Sharding.h"

namespace dpc::frontend {

/// Writes shardings over one mesh.
class SpecWriter {
public:
  explicit SpecWriter(MeshAttr mesh);

  /// Writes `spec` on the devices of a virtual pipeline stage, or on all
  /// devices.
  void write(const ShardingSpec &spec, std::optional<int64_t> stage,
             ::onnx::ShardingSpecProto &out) const;

private:
  MeshAttr mesh;
  std::vector<llvm::SmallVector<int64_t, 4>> coordinates; ///< Of each device.
};

/// A parsed spec.
struct ReadSpec {
  /// A sharded dimension and its number of shards. A dimension that is sharded
  /// by several factors has several splits.
  struct Split {
    int64_t dim;
    int64_t shards;
  };
  std::vector<Split> splits;
  /// For each device, the shard that it holds along each of `splits`. Devices
  /// without a shard are absent.
  std::map<int64_t, std::vector<int64_t>> places;
};

/// Reads the spec of a tensor of `rank` dimensions over `devices`. The error
/// says what is contradictory.
llvm::Expected<ReadSpec> readSpec(const ::onnx::ShardingSpecProto &spec,
                                  int64_t rank, int64_t devices);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_SPECS_H
