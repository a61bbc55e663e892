//===- UnevenShares.cpp - Uneven shares of the batch ----------------------===//
#include "passes/lower/UnevenShares.h"

#include "cost-model/strategy/BatchShares.h"
#include "ir/ExpertTiles.h"
#include "ir/MeshAxes.h"
#include "ir/NodeName.h"
#include "passes/cost/CollectivePricing.h"

using namespace mlir;
using namespace dpc;

Expected<std::vector<int64_t>> dpc::sharesOf(const LoweringSpec &spec) {
  return cost::shareMicroBatches(spec.batchShares.ratios, spec.dp,
                                 spec.numMicroBatches);
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

/// True if `axes`, which split one dimension, satisfy (B2).
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

/// True if all splits of `op` satisfy (B2).
static bool splitsCells(Operation *op, MeshAttr mesh) {
  if (auto slice = dyn_cast<RankSliceOp>(op)) {
    SmallVector<int64_t> axes;
    for (auto name : slice.getAxes().getAsRange<StringAttr>())
      axes.push_back(*mesh.findAxis(name.getValue()));
    return splitsCells(mesh, axes);
  }
  return splitsCells(op->getAttrOfType<TypeAttr>("global"));
}

static bool reducesOverData(Operation *op) {
  ArrayAttr axes = communicationAxes(op);
  return axes &&
         llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) {
           return splitsBatch(axis.getValue());
         });
}

std::string dpc::whyEvenShares(func::FuncOp step) {
  auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
  std::string cells =
      " is split over micro-batches but not over all data-parallel axes";
  for (BlockArgument argument : step.getArguments())
    if (!splitsCells(step.getArgAttrOfType<TypeAttr>(argument.getArgNumber(),
                                                     attr::kGlobal)))
      return "argument " + std::to_string(argument.getArgNumber()) + cells;
  std::string sums = step->hasAttr(attr::kTotalsPasses)
                         ? ", because micro-batches read sums over the batch"
                         : "";
  for (Operation &op : step.getBody().front().without_terminator()) {
    if (isInLoop(phaseOf(&op)) && reducesOverData(&op))
      return nodeOf(&op) +
             " makes data-parallel ranks synchronize in every "
             "micro-batch (" +
             op.getName().getStringRef().str() + ")" + sums +
             ", but they would have different numbers of micro-batches";
    if (!splitsCells(&op, mesh))
      return nodeOf(&op) + cells;
  }
  return "";
}
