//===- LoweringSpec.cpp - The mesh axes of one strategy -------------------===//
#include "passes/shard/LoweringSpec.h"

using namespace mlir;
using namespace dpc;

bool dpc::isHybrid(const LoweringSpec &spec) {
  return spec.hybridShard > 1 && spec.hybridShard < spec.dp;
}

bool dpc::isExpertTensor(const LoweringSpec &spec) {
  return spec.ep > 1 && spec.dp % spec.ep != 0;
}

int64_t dpc::expertDataRanks(const LoweringSpec &spec) {
  return isExpertTensor(spec) ? spec.ep / spec.tp : spec.ep;
}

std::vector<MeshAxis> dpc::axesOf(const LoweringSpec &spec) {
  std::vector<MeshAxis> axes;
  auto add = [&](std::string name, int64_t size, AxisRole role) {
    if (size > 1)
      axes.push_back({std::move(name), size, role});
  };
  // `ep` is the innermost part of the data-parallel ranks.
  int64_t experts = expertDataRanks(spec);
  int64_t inner = isHybrid(spec) ? spec.hybridShard / experts : spec.dataInside;
  add("pp", spec.pp, AxisRole::pipeline);
  add("dp", spec.dp / (inner * experts), AxisRole::data);
  add("dpi", inner, AxisRole::data);
  add("ep", experts, AxisRole::expert);
  add("cp", spec.cp, AxisRole::sequence);
  if (spec.tp.grid.empty())
    add("tp", spec.tp, AxisRole::tensor);
  for (auto [i, size] : llvm::enumerate(spec.tp.grid))
    add("tp" + std::to_string(i), size, AxisRole::tensor);
  add(kMicroBatchAxis.str(), spec.numMicroBatches, AxisRole::time);
  return axes;
}

MeshAttr dpc::meshFor(MLIRContext *context, const LoweringSpec &spec) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const MeshAxis &axis : axesOf(spec)) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return MeshAttr::get(context, names, sizes);
}

int64_t dpc::numRanks(const LoweringSpec &spec) {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axesOf(spec))
    if (axis.role != AxisRole::time)
      ranks *= axis.size;
  return ranks;
}

cost::RankOrder dpc::rankOrder(const LoweringSpec &spec) {
  cost::RankOrder usual, order;
  std::vector<MeshAxis> axes = axesOf(spec);
  for (const MeshAxis &axis : llvm::reverse(axes))
    if (axis.role != AxisRole::time)
      usual.push_back(
          {axis.name, axis.role == AxisRole::pipeline && spec.placedStages > 0
                          ? spec.placedStages
                          : axis.size});
  auto isNamed = [&](const cost::RankAxis &axis, StringRef name) {
    if (name == "tp")
      return StringRef(axis.name).starts_with("tp");
    // Without hybrid sharding, dpi is a part of dp that users do not name.
    bool isPart = axis.name == "dpi" && !isHybrid(spec);
    return isPart ? name == "dp" : axis.name == name;
  };
  for (const std::string &name : spec.placement.axes)
    for (const cost::RankAxis &axis : usual)
      if (isNamed(axis, name))
        order.push_back(axis);
  for (const cost::RankAxis &axis : usual)
    if (llvm::none_of(order, [&](const cost::RankAxis &placed) {
          return placed.name == axis.name;
        }))
      order.push_back(axis);
  return order;
}

std::optional<double> dpc::topkShare(StringRef compression) {
  double share = 0;
  if (!compression.consume_front("topk:") || compression.getAsDouble(share) ||
      !(share > 0 && share <= 1))
    return std::nullopt;
  return share;
}
