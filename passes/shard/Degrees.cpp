//===- Degrees.cpp - The mesh axes of one strategy ------------------------===//
#include "passes/shard/Degrees.h"

using namespace mlir;
using namespace dpc;

static bool isHybrid(const ShardDegrees &degrees) {
  return degrees.hybridShard > 1 && degrees.hybridShard < degrees.dp;
}

std::vector<MeshAxis> dpc::axesOf(const ShardDegrees &degrees) {
  std::vector<MeshAxis> axes;
  auto add = [&](std::string name, int64_t size, AxisRole role) {
    if (size > 1)
      axes.push_back({std::move(name), size, role});
  };
  int64_t inner = isHybrid(degrees) ? degrees.hybridShard : 1;
  add("pp", degrees.pp, AxisRole::pipeline);
  add("dp", degrees.dp / inner, AxisRole::data);
  add("dpi", inner, AxisRole::data);
  add("cp", degrees.cp, AxisRole::sequence);
  if (degrees.tpGrid.empty())
    add("tp", degrees.tp, AxisRole::tensor);
  for (auto [i, size] : llvm::enumerate(degrees.tpGrid))
    add("tp" + std::to_string(i), size, AxisRole::tensor);
  add(kMicroBatchAxis.str(), degrees.microBatches, AxisRole::time);
  return axes;
}

MeshAttr dpc::meshFor(MLIRContext *context, const ShardDegrees &degrees) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const MeshAxis &axis : axesOf(degrees)) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return MeshAttr::get(context, names, sizes);
}

int64_t dpc::numRanks(const ShardDegrees &degrees) {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axesOf(degrees))
    if (axis.role != AxisRole::time)
      ranks *= axis.size;
  return ranks;
}

std::string dpc::checkDegrees(const ShardDegrees &degrees) {
  int64_t grid = 1;
  for (int64_t size : degrees.tpGrid)
    grid *= size;
  if (!degrees.tpGrid.empty() && grid != degrees.tp)
    return "tp-grid multiplies out to " + std::to_string(grid) +
           "; expected tp = " + std::to_string(degrees.tp);
  if (degrees.hybridShard < 1 || degrees.dp % degrees.hybridShard != 0)
    return "hybrid-shard=" + std::to_string(degrees.hybridShard) +
           "; expected a divisor of dp = " + std::to_string(degrees.dp);
  return "";
}
