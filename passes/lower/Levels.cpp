//===- Levels.cpp - Where the levels of a cluster show --------------------===//
#include "passes/lower/Levels.h"

#include "cost-model/machine/ComputeCost.h"
#include "passes/cost/CollectivePricing.h"
#include "passes/shard/ReshardPlan.h"

using namespace mlir;
using namespace dpc;

static int64_t levelsOf(const cost::GroupPlacement &group) {
  return llvm::count_if(group.ranksPerLevel,
                        [](int64_t ranks) { return ranks > 1; });
}

int64_t dpc::dataRanksInside(const cost::Cluster &cluster,
                             const LoweringSpec &spec) {
  int64_t experts = expertDataRanks(spec), ranks = spec.dp / experts;
  if (isHybrid(spec) || ranks == 1)
    return 1;
  LoweringSpec whole = spec;
  whole.dataInside = 1;
  cost::GroupPlacement group =
      cost::placeGroup(cluster, rankOrder(whole), {"dp"});
  if (levelsOf(group) < 2 || group.size() != ranks)
    return 1;
  int64_t inside = 1;
  for (int64_t count : group.ranksPerLevel)
    if (inside * count < ranks)
      inside *= count;
    else
      break;
  return inside;
}

double dpc::gatherCost(const cost::Cluster &cluster, const LoweringSpec &spec,
                       llvm::function_ref<bool(StringRef)> isIncluded) {
  constexpr double kLarge = 256 << 20; // Makes latency negligible.
  cost::RankOrder order = rankOrder(spec);
  std::vector<std::string> axes;
  for (const cost::RankAxis &axis : order)
    if (isIncluded(axis.name))
      axes.push_back(axis.name);
  if (axes.empty())
    return 0;
  const cost::Device &device = cluster.slowestDevice(cost::DType::BF16);
  double seconds =
      cost::estimateCollective(cluster, cost::Collective::AllGather, kLarge,
                               cost::placeGroup(cluster, order, axes))
          .seconds;
  return seconds * cost::achievableBandwidth(device) / kLarge;
}

ExchangeCosts dpc::exchangeCosts(const cost::Cluster &cluster,
                                 const LoweringSpec &spec) {
  constexpr double kSmall = 64 << 10, kLarge = 256 << 20;
  cost::RankOrder order = rankOrder(spec);
  bool isSplit = llvm::any_of(order, [](const cost::RankAxis &axis) {
    return axis.name == kExpertAxis;
  });
  if (!isSplit)
    return {};
  cost::GroupPlacement group =
      cost::placeGroup(cluster, order, {kExpertAxis.str()});
  auto costOf = [&](cost::Collective kind) {
    auto seconds = [&](double bytes) {
      return cost::estimateCollective(cluster, kind, bytes, group).seconds;
    };
    double perByte = (seconds(kLarge) - seconds(kSmall)) / (kLarge - kSmall);
    return MoveCost{std::max(0.0, seconds(kSmall) - kSmall * perByte) +
                        cluster.software.collectiveStartSeconds,
                    perByte};
  };
  return {costOf(cost::Collective::AllGather),
          costOf(cost::Collective::AllToAll)};
}

void dpc::markHierarchies(func::FuncOp step, const cost::Cluster &cluster) {
  CollectivePricing pricing(step, cluster);
  step.walk([&](AllReduceOp op) {
    ArrayRef<Attribute> axes = op.getAxes().getValue();
    if (op->hasAttr(attr::kCompress) || axes.size() < 2 ||
        pricing.collective(op).algorithm != cost::Algorithm::Hierarchical)
      return;
    // Drop the outermost axes until the ranks along the others share one level.
    SmallVector<Attribute> inner(axes);
    for (const cost::RankAxis &outer : llvm::reverse(pricing.rankOrder())) {
      llvm::erase_if(inner, [&](Attribute axis) {
        return cast<StringAttr>(axis).getValue() == outer.name;
      });
      ArrayAttr left = ArrayAttr::get(op.getContext(), inner);
      if (inner.empty() || inner.size() == axes.size() ||
          levelsOf(pricing.placement(left)) > 1)
        continue;
      op->setAttr(attr::kInner, left);
      return;
    }
  });
}
