//===- Degrees.cpp - The mesh axes of one strategy ------------------------===//
#include "passes/shard/Degrees.h"

using namespace mlir;
using namespace dpc;

bool dpc::isHybrid(const LoweringSpec &degrees) {
  return degrees.hybridShard > 1 && degrees.hybridShard < degrees.dp;
}

bool dpc::isExpertTensor(const LoweringSpec &degrees) {
  return degrees.ep > 1 && degrees.dp % degrees.ep != 0;
}

int64_t dpc::expertDataRanks(const LoweringSpec &degrees) {
  return isExpertTensor(degrees) ? degrees.ep / degrees.tp : degrees.ep;
}

std::vector<MeshAxis> dpc::axesOf(const LoweringSpec &degrees) {
  std::vector<MeshAxis> axes;
  auto add = [&](std::string name, int64_t size, AxisRole role) {
    if (size > 1)
      axes.push_back({std::move(name), size, role});
  };
  // `ep` is the innermost part of the data-parallel ranks.
  int64_t experts = expertDataRanks(degrees);
  int64_t inner =
      isHybrid(degrees) ? degrees.hybridShard / experts : degrees.dataInside;
  add("pp", degrees.pp, AxisRole::pipeline);
  add("dp", degrees.dp / (inner * experts), AxisRole::data);
  add("dpi", inner, AxisRole::data);
  add("ep", experts, AxisRole::expert);
  add("cp", degrees.cp, AxisRole::sequence);
  if (degrees.tp.grid.empty())
    add("tp", degrees.tp, AxisRole::tensor);
  for (auto [i, size] : llvm::enumerate(degrees.tp.grid))
    add("tp" + std::to_string(i), size, AxisRole::tensor);
  add(kMicroBatchAxis.str(), degrees.numMicroBatches, AxisRole::time);
  return axes;
}

MeshAttr dpc::meshFor(MLIRContext *context, const LoweringSpec &degrees) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const MeshAxis &axis : axesOf(degrees)) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return MeshAttr::get(context, names, sizes);
}

int64_t dpc::numRanks(const LoweringSpec &degrees) {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axesOf(degrees))
    if (axis.role != AxisRole::time)
      ranks *= axis.size;
  return ranks;
}

cost::RankOrder dpc::rankOrder(const LoweringSpec &degrees) {
  cost::RankOrder usual, order;
  std::vector<MeshAxis> axes = axesOf(degrees);
  for (const MeshAxis &axis : llvm::reverse(axes))
    if (axis.role != AxisRole::time)
      usual.push_back({axis.name, axis.role == AxisRole::pipeline &&
                                          degrees.placedStages > 0
                                      ? degrees.placedStages
                                      : axis.size});
  auto isNamed = [&](const cost::RankAxis &axis, StringRef name) {
    if (name == "tp")
      return StringRef(axis.name).starts_with("tp");
    // Without hybrid sharding dpi is not the user's, only a part of dp.
    bool isPart = axis.name == "dpi" && !isHybrid(degrees);
    return isPart ? name == "dp" : axis.name == name;
  };
  for (const std::string &name : degrees.placement.axes)
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
