//===- CollectivePricing.cpp - Costs of a step's collectives --------------===//
#include "passes/cost/CollectivePricing.h"

#include "cost-model/machine/CollectiveCost.h"
#include "ir/ExpertLoads.h"
#include "ir/ExpertTiles.h"
#include "ir/GemmEpilogues.h"
#include "ir/MeshAxes.h"
#include "ir/TensorUtils.h"
#include "passes/cost/OpTime.h"

using namespace mlir;
using namespace dpc;

static MeshAttr meshOf(func::FuncOp step) {
  return step->getAttrOfType<MeshAttr>(attr::kMesh);
}

std::vector<std::string> dpc::namesOf(ArrayAttr axes) {
  std::vector<std::string> names;
  for (auto name : axes.getAsRange<StringAttr>())
    names.push_back(name.getValue().str());
  return names;
}

cost::RankOrder dpc::rankOrderOf(func::FuncOp step) {
  cost::RankOrder order;
  MeshAttr mesh = meshOf(step);
  if (!mesh)
    return order;
  if (auto placed = step->getAttrOfType<ArrayAttr>(attr::kPlacement)) {
    for (const std::string &name : namesOf(placed))
      order.push_back({name, mesh.axisSize(name)});
    return order;
  }
  // The last axis of the mesh is innermost.
  for (auto [name, size] :
       llvm::reverse(llvm::zip_equal(mesh.getNames(), mesh.getSizes())))
    if (name.getValue() != kMicroBatchAxis)
      order.push_back({name.getValue().str(), size});
  return order;
}

cost::DType dpc::productType(func::FuncOp step) {
  for (Operation &op : step.getBody().front()) {
    MatmulOp product = matmulOf(&op);
    if (!product)
      continue;
    Type type = product.getA().getType().getElementType();
    if (type.isF16() || type.isBF16())
      return costType(type);
  }
  return cost::DType::F32;
}

CollectivePricing::CollectivePricing(func::FuncOp step,
                                     const cost::Cluster &cluster)
    : cluster(cluster), mesh(meshOf(step)), order(rankOrderOf(step)),
      narrow(cluster.software.narrowActivations &&
             productType(step) != cost::DType::F32) {}

/// Returns the bytes of `values` in the types in which the software sends them.
double CollectivePricing::movedBytes(Operation *op, ValueRange values) const {
  auto collective = dyn_cast<CollectiveOpInterface>(op); // null: a message
  double bytes = 0;
  for (Value value : values) {
    RankedTensorType type = tensorType(value);
    // The software sums gradients in the type of its GEMMs.
    bool isSum = collective && collective.getReduceKind() &&
                 type.getRank() > 0 && type.getElementType().isF32();
    bytes += narrow && isSum
                 ? static_cast<double>(sizeInBytes(type)) / 2
                 : activationBytes(value, narrow && isInLoop(phaseOf(op)));
  }
  return bytes;
}

cost::GroupPlacement CollectivePricing::placement(ArrayAttr axes) const {
  return cost::placeGroup(cluster, order, namesOf(axes));
}

static cost::Collective pricedAs(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::all_reduce:
    return cost::Collective::AllReduce;
  case CollectiveKind::all_gather:
    return cost::Collective::AllGather;
  case CollectiveKind::reduce_scatter:
    return cost::Collective::ReduceScatter;
  case CollectiveKind::all_to_all:
    return cost::Collective::AllToAll;
  case CollectiveKind::ring_shift:
    return cost::Collective::SendRecv;
  }
  llvm_unreachable("unknown collective");
}

CollectivePricing::Traffic CollectivePricing::trafficOf(Operation *op) const {
  auto collective = cast<CollectiveOpInterface>(op);
  return {pricedAs(collective.getCollectiveKind()),
          movedBytes(op, collective.getPayload())};
}

static bool isDataParallel(ArrayAttr axes) {
  return llvm::all_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) {
    return isDataAxis(axis.getValue());
  });
}

cost::CollectiveEstimate CollectivePricing::collective(Operation *op) const {
  ArrayAttr axes = cast<CollectiveOpInterface>(op).getAxes();
  Traffic moved = trafficOf(op);
  cost::CollectiveEstimate estimate =
      estimateCollective(cluster, moved.kind, moved.bytes, placement(axes));
  if (isDataParallel(axes))
    estimate.seconds /= cluster.software.dataBandwidth;
  return estimate;
}

CollectivePricing::Exchange
CollectivePricing::exchangeOf(ExpertTilesOp op) const {
  auto global = cast<RankedTensorType>(op.getGlobal());
  double load = expertLoad(op, localType(global).getDimSize(0));
  double rows = static_cast<double>(expectedRows(op)) * load;
  cost::GroupPlacement group = placement(op.getExchangeAttr());
  Exchange result;
  result.rounds = std::max<int64_t>(1, expectedTiles(op, load));
  auto rounds = static_cast<double>(result.rounds);
  auto ranks = static_cast<double>(exchangedRanks(op));
  // First, the numbers of rows of all pairs.
  result.collectives = 1;
  result.estimate = estimateCollective(cluster, cost::Collective::AllGather,
                                       ranks * ranks * sizeof(int64_t), group);
  for (Value tile : travelingTiles(op)) {
    double bytes = activationBytes(tile, narrow) * rows /
                   static_cast<double>(op.getTileRows());
    cost::CollectiveEstimate round = estimateCollective(
        cluster, cost::Collective::AllToAll, bytes / rounds, group);
    result.bytes += bytes;
    result.collectives += result.rounds;
    result.estimate.seconds += rounds * round.seconds;
    for (auto [sum, sent] :
         llvm::zip_equal(result.estimate.bytesPerLevel, round.bytesPerLevel))
      sum += rounds * sent;
  }
  return result;
}

CollectivePricing::Message CollectivePricing::messageOf(SendOp send) const {
  Message message;
  message.bytes = movedBytes(send, send.getValue());
  message.gather.bytesPerLevel.assign(cluster.levels.size(), 0);
  int64_t ranks = 1;
  std::vector<std::string> axes; // "tp", or "tp0", "tp1", ...
  for (auto [name, size] : llvm::zip_equal(mesh.getNames(), mesh.getSizes()))
    if (isTensorAxis(name)) {
      ranks *= size;
      axes.push_back(name.getValue().str());
    }
  if (!cluster.software.scatteredMessages || ranks == 1)
    return message;
  message.gather =
      estimateCollective(cluster, cost::Collective::AllGather, message.bytes,
                         cost::placeGroup(cluster, order, axes));
  message.bytes /= static_cast<double>(ranks);
  return message;
}
