//===- TpStates.cpp - Forward and backward placement of a value -----------===//
#include "passes/shard/TpStates.h"

using namespace mlir;
using namespace dpc;

namespace {
/// How one tensor (value or gradient) lies: a factor index, or one of these.
constexpr int64_t kReplicated = -1, kPartial = -2;
} // namespace

static int64_t valuePlace(TpState state) {
  if (state >= tp::firstSplit)
    return state - tp::firstSplit;
  return state == tp::partial ? kPartial : kReplicated;
}

static int64_t gradientPlace(TpState state) {
  if (state >= tp::firstSplit)
    return state - tp::firstSplit;
  return state == tp::gradPartial ? kPartial : kReplicated;
}

static TpTransition::Move moveBetween(int64_t from, int64_t to) {
  if (from == to || (from == kReplicated && to >= 0))
    return TpTransition::none; // a slice is free
  if (to == kPartial)
    return TpTransition::impossible;
  if (from == kPartial)
    return to == kReplicated ? TpTransition::allReduce
                             : TpTransition::reduceScatter;
  return to == kReplicated ? TpTransition::allGather : TpTransition::allToAll;
}

TpTransition dpc::transition(TpState from, TpState to, bool hasGradient) {
  TpTransition result;
  result.forward = moveBetween(valuePlace(from), valuePlace(to));
  if (hasGradient)
    result.backward = moveBetween(gradientPlace(to), gradientPlace(from));
  return result;
}

TpState dpc::operandState(const FactorAnalysis &factors, Operation *op,
                          const TpChoice &choice, unsigned index) {
  switch (choice.kind) {
  case TpChoice::replicate:
    return tp::replicated;
  case TpChoice::gradPartial:
    return tp::gradPartial;
  case TpChoice::partial: {
    const ShardingRule &rule = factors.rule(op);
    bool member = rule.movesData
                      ? index == 0
                      : llvm::is_contained(rule.linear[choice.group],
                                           static_cast<int64_t>(index));
    // The gradient of a factor is dy times the partial operand.
    return member ? tp::partial : tp::gradPartial;
  }
  case TpChoice::split: {
    int64_t position =
        factors.positionIn(op, /*isResult=*/false, index, choice.factor);
    return position < 0 ? tp::gradPartial : tp::firstSplit + position;
  }
  }
  llvm_unreachable("unknown choice");
}

TpState dpc::resultState(const FactorAnalysis &factors, Operation *op,
                         const TpChoice &choice, unsigned index) {
  switch (choice.kind) {
  case TpChoice::replicate:
    return tp::replicated;
  case TpChoice::gradPartial:
    return tp::gradPartial;
  case TpChoice::partial:
    return tp::partial;
  case TpChoice::split: {
    int64_t position =
        factors.positionIn(op, /*isResult=*/true, index, choice.factor);
    return position < 0 ? tp::partial : tp::firstSplit + position;
  }
  }
  llvm_unreachable("unknown choice");
}

SmallVector<TpChoice> dpc::choicesOf(const FactorAnalysis &factors,
                                     Operation *op, bool hasGradient) {
  SmallVector<TpChoice> choices = {TpChoice{}};
  const ShardingRule &rule = factors.rule(op);
  if (rule.combines)
    return choices;
  if (hasGradient)
    choices.push_back({TpChoice::gradPartial, {}, -1});
  if (rule.movesData)
    choices.push_back({TpChoice::partial, {}, -1});
  else
    for (int64_t group = 0, e = rule.linear.size(); group < e; ++group)
      choices.push_back({TpChoice::partial, {}, group});
  for (IterFactor factor : factors.splittable(op))
    choices.push_back({TpChoice::split, factor, -1});
  return choices;
}
