//===- Specs.h - Shardings as ONNX says them -------------------*- C++ -*-===//
//
// A ShardingSpecProto lists, for every shard of a tensor in row-major order of
// its split dimensions, a device or (by a negative key) a group of devices that
// hold copies.
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

  /// `spec` on the devices of a virtual pipeline stage, or on all of them.
  void write(const ShardingSpec &spec, std::optional<int64_t> stage,
             ::onnx::ShardingSpecProto &out) const;

private:
  MeshAttr mesh;
  std::vector<llvm::SmallVector<int64_t, 4>> coordinates; ///< By device.
};

/// A spec that was read.
struct ReadSpec {
  /// A split dimension and into how many shards. A dimension that is split in
  /// several factors has several of these.
  struct Split {
    int64_t dim;
    int64_t shards;
  };
  std::vector<Split> splits;
  /// By device: which shard it holds along each of `splits`. Devices without
  /// any part are left out.
  std::map<int64_t, std::vector<int64_t>> places;
};

/// Reads the spec of a tensor of `rank` dimensions over `devices`; the error
/// names what contradicts itself.
llvm::Expected<ReadSpec> readSpec(const ::onnx::ShardingSpecProto &spec,
                                  int64_t rank, int64_t devices);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_SPECS_H
