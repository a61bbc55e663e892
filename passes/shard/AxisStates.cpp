//===- AxisStates.cpp - Forward and backward placement of a value
//-----------===//
#include "passes/shard/AxisStates.h"

using namespace mlir;
using namespace dpc;

namespace {
/// How one tensor (value or gradient) lies: a factor index, or one of these.
constexpr int64_t kReplicated = -1, kPartial = -2;
} // namespace

static int64_t valuePlace(AxisState state) {
  if (state >= axis::firstSplit)
    return state - axis::firstSplit;
  return state == axis::partial ? kPartial : kReplicated;
}

static int64_t gradientPlace(AxisState state) {
  if (state >= axis::firstSplit)
    return state - axis::firstSplit;
  return state == axis::gradPartial ? kPartial : kReplicated;
}

static AxisTransition::Move moveBetween(int64_t from, int64_t to) {
  if (from == to || (from == kReplicated && to >= 0))
    return AxisTransition::none; // a slice is free
  if (to == kPartial)
    return AxisTransition::impossible;
  if (from == kPartial)
    return to == kReplicated ? AxisTransition::allReduce
                             : AxisTransition::reduceScatter;
  return to == kReplicated ? AxisTransition::allGather
                           : AxisTransition::allToAll;
}

AxisTransition dpc::transition(AxisState from, AxisState to, bool hasGradient) {
  AxisTransition result;
  result.forward = moveBetween(valuePlace(from), valuePlace(to));
  if (hasGradient)
    result.backward = moveBetween(gradientPlace(to), gradientPlace(from));
  return result;
}

AxisState dpc::operandState(const FactorAnalysis &factors, Operation *op,
                            const AxisChoice &choice, unsigned index) {
  switch (choice.kind) {
  case AxisChoice::replicate:
    return axis::replicated;
  case AxisChoice::gradPartial:
    return axis::gradPartial;
  case AxisChoice::partial: {
    const ShardingRule &rule = factors.rule(op);
    bool member = rule.movesData
                      ? index == 0
                      : llvm::is_contained(rule.linear[choice.group],
                                           static_cast<int64_t>(index));
    // The gradient of a factor is dy times the partial operand.
    return member ? axis::partial : axis::gradPartial;
  }
  case AxisChoice::split: {
    int64_t position =
        factors.positionIn(op, /*isResult=*/false, index, choice.factor);
    return position < 0 ? axis::gradPartial : axis::firstSplit + position;
  }
  }
  llvm_unreachable("unknown choice");
}

AxisState dpc::resultState(const FactorAnalysis &factors, Operation *op,
                           const AxisChoice &choice, unsigned index) {
  switch (choice.kind) {
  case AxisChoice::replicate:
    return axis::replicated;
  case AxisChoice::gradPartial:
    return axis::gradPartial;
  case AxisChoice::partial:
    return axis::partial;
  case AxisChoice::split: {
    int64_t position =
        factors.positionIn(op, /*isResult=*/true, index, choice.factor);
    return position < 0 ? axis::partial : axis::firstSplit + position;
  }
  }
  llvm_unreachable("unknown choice");
}

SmallVector<AxisChoice> dpc::choicesOf(const FactorAnalysis &factors,
                                       Operation *op, bool hasGradient) {
  SmallVector<AxisChoice> choices = {AxisChoice{}};
  const ShardingRule &rule = factors.rule(op);
  if (rule.combines)
    return choices;
  if (hasGradient)
    choices.push_back({AxisChoice::gradPartial, {}, -1});
  if (rule.movesData)
    choices.push_back({AxisChoice::partial, {}, -1});
  else
    for (int64_t group = 0, e = rule.linear.size(); group < e; ++group)
      choices.push_back({AxisChoice::partial, {}, group});
  for (IterFactor factor : factors.splittable(op))
    choices.push_back({AxisChoice::split, factor, -1});
  return choices;
}
