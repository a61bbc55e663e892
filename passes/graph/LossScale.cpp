//===- LossScale.cpp - Gradients within the range of f16 ------------------===//
#include "passes/graph/LossScale.h"

#include <cfloat>
#include <cmath>

using namespace mlir;
using namespace dpc;

static constexpr llvm::StringLiteral kScale = "scale", kStreak = "streak",
                                     kSkipped = "skipped";
static constexpr double kGrowth = 2, kBackoff = 0.5, kSmallest = 1,
                        kLargest = 0x1p127;

StringRef LossScale::skippedName() { return "loss_scale.skipped"; }

LossScale::LossScale(LossScaleSettings settings) : settings(settings) {
  if (!isOn())
    return;
  if (settings.interval > 0) {
    all.push_back({"loss_scale", kScale, settings.initial, {}, {}});
    all.push_back({"loss_scale.streak", kStreak, 0, {}, {}});
  }
  all.push_back({"loss_scale.skipped", kSkipped, 0, {}, {}});
}

ScalarState *LossScale::stateOf(StringRef slot) {
  auto *found = llvm::find_if(
      all, [&](const ScalarState &state) { return state.slot == slot; });
  return found == all.end() ? nullptr : found;
}

static Value number(GraphBuilder g, double value) {
  return g.constant(RankedTensorType::get({}, g.builder.getF32Type()), value);
}

Value LossScale::scale(GraphBuilder g) {
  ScalarState *state = stateOf(kScale);
  return state ? state->value : number(g, settings.initial);
}

/// Returns c of LossScale.h; 1 if the loss is not a sum divided by a count.
static double countFactor(const PeeledLoss &peeled) {
  auto reduce = peeled.sum.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::sum || peeled.factors.empty())
    return 1;
  double terms = tensorType(reduce.getX()).getNumElements();
  return std::exp2(-std::ceil(std::log2(terms)));
}

Value LossScale::seed(GraphBuilder g, const PeeledLoss &peeled) {
  Value seed = g.scale(scale(g), peeled.seed * countFactor(peeled));
  return g.convert(seed, elementTypeOf(peeled.sum));
}

Value LossScale::divisor(GraphBuilder g, const PeeledLoss &peeled) {
  return g.scale(scale(g), countFactor(peeled));
}

Value LossScale::updates(GraphBuilder g, Value step) {
  return g.sub(step, stateOf(kSkipped)->value);
}

void LossScale::decide(GraphBuilder g, Value norm) {
  Value zero = number(g, 0), one = number(g, 1);
  good = g.compare(CompareKind::le, norm, number(g, FLT_MAX));
  skipped = g.select(good, zero, one);
  ScalarState *count = stateOf(kSkipped);
  count->next = g.add(count->value, skipped);
  if (settings.interval == 0)
    return;
  ScalarState *scale = stateOf(kScale), *streak = stateOf(kStreak);
  Value old = scale->value, length = g.add(streak->value, one);
  Value grows = g.compare(CompareKind::ge, length,
                          number(g, static_cast<double>(settings.interval)));
  Value grown =
      g.binary(BinaryKind::minimum, g.scale(old, kGrowth), number(g, kLargest));
  Value shrunk = g.binary(BinaryKind::maximum, g.scale(old, kBackoff),
                          number(g, kSmallest));
  scale->next = g.select(good, g.select(grows, grown, old), shrunk);
  streak->next = g.select(good, g.select(grows, zero, length), zero);
}
