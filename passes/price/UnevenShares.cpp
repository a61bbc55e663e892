//===- UnevenShares.cpp - Ranks with uneven shares of the batch -----------===//
#include "passes/price/UnevenShares.h"

#include "cost-model/strategy/BatchShares.h"
#include "passes/price/StepEstimate.h"
#include "passes/price/StepQueues.h"

using namespace mlir;
using namespace dpc;

Expected<std::vector<int64_t>> dpc::sharesOf(const ShardDegrees &degrees) {
  return cost::shareMicroBatches(degrees.batchShares, degrees.dp,
                                 degrees.microBatches);
}

std::vector<int64_t> dpc::sharesOf(func::FuncOp step) {
  if (auto shares = step->getAttrOfType<DenseI64ArrayAttr>(attr::kBatchShares))
    return shares.asArrayRef().vec();
  return {};
}

void dpc::markShares(func::FuncOp step, ArrayRef<int64_t> shares) {
  if (!shares.empty())
    step->setAttr(attr::kBatchShares,
                  DenseI64ArrayAttr::get(step.getContext(), shares));
}

SharedSeconds dpc::secondsOfShares(ArrayRef<cost::LoopSeconds> onGroups,
                                   ArrayRef<cost::StageDevices> devices,
                                   ArrayRef<int64_t> shares) {
  double loop = -1, rest = 0, loopCompute = 0, restCompute = 0;
  for (auto [own, share] : llvm::zip_equal(devices, shares)) {
    const cost::LoopSeconds &seconds = onGroups[own.group];
    auto count = static_cast<double>(share);
    if (count * seconds.microBatch > loop) {
      loop = count * seconds.microBatch;
      loopCompute = count * seconds.microBatchCompute;
    }
    rest = std::max(rest, seconds.rest);
    restCompute = std::max(restCompute, seconds.restCompute);
  }
  return {loop + rest, loopCompute + restCompute};
}

static std::vector<cost::ShareOfRanks>
runsOf(ArrayRef<int64_t> shares, ArrayRef<cost::StageDevices> devices,
       ArrayRef<cost::LoopSeconds> onGroups, const cost::Cluster &cluster) {
  std::vector<cost::ShareOfRanks> runs;
  for (auto [share, own] : llvm::zip_equal(shares, devices)) {
    const std::string &device = cluster.groups[own.group].device.name;
    if (runs.empty() || runs.back().device != device ||
        runs.back().microBatches != share)
      runs.push_back({device, 0, share, onGroups[own.group].microBatch});
    ++runs.back().dataRanks;
  }
  return runs;
}

void dpc::shareBatch(cost::Evaluation &evaluation, const cost::Cluster &cluster,
                     const ShardDegrees &degrees) {
  if (evaluation.groupSeconds.empty() || degrees.dp == 1)
    return;
  std::vector<cost::StageDevices> devices = cost::devicesOfDataRanks(
      cluster, evaluation.decisions.order, 0, cost::DType::F32);
  std::vector<double> seconds;
  seconds.reserve(devices.size());
  for (const cost::StageDevices &own : devices)
    seconds.push_back(evaluation.groupSeconds[own.group].microBatch);
  std::vector<int64_t> shares =
      cost::fastestShares(seconds, degrees.dp * degrees.microBatches);
  SharedSeconds shared =
      secondsOfShares(evaluation.groupSeconds, devices, shares);
  // A smaller gain may be rounding.
  constexpr double kWorth = 0.999;
  if (shared.step >= kWorth * evaluation.stepSeconds)
    return;
  evaluation.shares = runsOf(shares, devices, evaluation.groupSeconds, cluster);
  evaluation.evenSeconds = evaluation.stepSeconds;
  evaluation.decisions.batchShares = std::move(shares);
  evaluation.stepSeconds = shared.step;
  evaluation.computeSeconds = shared.compute;
  evaluation.exposedCommunicationSeconds =
      std::max(0.0, shared.step - shared.compute);
}

static bool isDataAxis(StringRef name) {
  return name == "dp" || name == "dpi" || name == "ep";
}

/// (B2), for axes that split something together.
static bool splitsCells(MeshAttr mesh, ArrayRef<int64_t> axes) {
  auto isAmong = [&](StringRef name) {
    std::optional<int64_t> axis = mesh.findAxis(name);
    return !axis || llvm::is_contained(axes, *axis);
  };
  if (!mesh.findAxis(kMicroBatchAxis) || !isAmong(kMicroBatchAxis))
    return true;
  return isAmong("dp") && isAmong("dpi") && !mesh.findAxis("ep");
}

static bool splitsCells(TypeAttr global) {
  auto type = global ? dyn_cast<RankedTensorType>(global.getValue()) : nullptr;
  auto spec = type ? ShardingSpec::get(type) : std::nullopt;
  return !spec || llvm::all_of(spec->dims, [&](const DimFactors &factors) {
    return llvm::all_of(factors, [&](const Factor &factor) {
      return splitsCells(spec->mesh, factor.axes);
    });
  });
}

/// Whether all that `op` says of axes keeps (B2).
static bool splitsCells(Operation *op, MeshAttr mesh) {
  if (auto slice = dyn_cast<RankSliceOp>(op)) {
    SmallVector<int64_t> axes;
    for (auto name : slice.getAxes().getAsRange<StringAttr>())
      axes.push_back(*mesh.findAxis(name.getValue()));
    return splitsCells(mesh, axes);
  }
  return splitsCells(op->getAttrOfType<TypeAttr>("global"));
}

static bool meetsDataRanks(Operation *op) {
  if (!isCommunication(op) || isa<SendOp, RecvOp>(op))
    return false;
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) {
    return isDataAxis(axis.getValue());
  });
}

std::string dpc::whyEvenShares(func::FuncOp step) {
  auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
  std::string cells =
      " cuts micro-batches apart from the ranks' parts of the batch";
  for (BlockArgument argument : step.getArguments())
    if (!splitsCells(step.getArgAttrOfType<TypeAttr>(argument.getArgNumber(),
                                                     attr::kGlobal)))
      return "argument " + std::to_string(argument.getArgNumber()) + cells;
  for (Operation &op : step.getBody().front().without_terminator()) {
    std::string name = op.getName().getStringRef().str();
    if (isInLoop(phaseOf(&op)) && meetsDataRanks(&op))
      return "data-parallel ranks meet in every micro-batch (" + name +
             "), and would have unlike numbers of them";
    if (!splitsCells(&op, mesh))
      return name + cells;
  }
  return "";
}
