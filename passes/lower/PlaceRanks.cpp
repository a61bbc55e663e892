//===- PlaceRanks.cpp - dpc-place-ranks -----------------------------------===//
#include "passes/lower/Levels.h"
#include "passes/lower/Lower.h"
#include "passes/lower/Passes.h"
#include "passes/lower/SpecOptions.h"
#include "passes/lower/UnevenShares.h"

#include "cost-model/strategy/BatchShares.h"

using namespace mlir;
using namespace dpc;

namespace dpc {
#define GEN_PASS_DEF_DPCPLACERANKS
#include "passes/lower/Passes.h.inc"
} // namespace dpc

static void markPlacement(func::FuncOp step, const LoweringSpec &spec) {
  if (spec.placement.axes.empty())
    return;
  SmallVector<StringRef> names;
  cost::RankOrder order = rankOrder(spec);
  for (const cost::RankAxis &axis : order)
    names.push_back(axis.name);
  step->setAttr(attr::kPlacement,
                Builder(step.getContext()).getStrArrayAttr(names));
}

/// Marks the values of keys that only the cost model reads (KeyInfo::isMarked).
static void markKeys(func::FuncOp step, const LoweringSpec &spec) {
  static const cost::Strategy neutral;
  Builder builder(step.getContext());
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    const cost::Strategy &strategy = spec;
    if (key.isMarked && hasEffect(key, strategy) &&
        !(field(strategy) == field(neutral)))
      step->setAttr(attr::ofKey(key.name),
                    builder.getStringAttr(cost::printValue(field(strategy))));
  });
}

static LogicalResult setShares(ModuleOp module, const LoweringSpec &spec) {
  std::vector<int64_t> shares = *sharesOf(spec);
  if (shares.empty())
    return success();
  for (func::FuncOp step : findSteps(module)) {
    if (std::string why = whyEvenShares(step); !why.empty())
      return step.emitError(
          "batch_shares=" + printValue(cost::sharesFrom(shares)) + ": " + why +
          "; expected batch_shares=even");
    markShares(step, shares);
  }
  return success();
}

LogicalResult dpc::placeRanks(ModuleOp module, const cost::Cluster &cluster,
                              const LoweringSpec &asked) {
  LoweringSpec spec = asked;
  spec.dataInside = dataRanksInside(cluster, asked);
  for (func::FuncOp step : findSteps(module)) {
    markPlacement(step, spec);
    markKeys(step, spec);
    markHierarchies(step, cluster);
  }
  return setShares(module, spec);
}

namespace {

struct PlaceRanksPass : public dpc::impl::DpcPlaceRanksBase<PlaceRanksPass> {
  using DpcPlaceRanksBase::DpcPlaceRanksBase;

  void runOnOperation() override {
    Expected<SpecOnCluster> read = readSpec(strategy, microBatches, cluster);
    if (!read) {
      getOperation().emitError(read.message());
      return signalPassFailure();
    }
    if (failed(placeRanks(getOperation(), read->cluster, read->spec)))
      signalPassFailure();
  }
};

} // namespace
