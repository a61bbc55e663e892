//===- AxisStates.cpp - States of a value and its gradient ----------------===//
#include "passes/shard/AxisStates.h"

#include "passes/shard/ExpertRows.h"

using namespace mlir;
using namespace dpc;

/// The placement of one tensor (a value or a gradient) is the index of the
/// factor that is split, or one of these.
static constexpr int64_t kReplicated = -1, kPartial = -2, kRoutedRows = -3;

/// Returns the placement of the tensor that is partial in state `partial`.
static int64_t placeOf(AxisState state, AxisState partial) {
  if (state >= axis::firstSplit)
    return state - axis::firstSplit;
  if (state == axis::routed)
    return kRoutedRows;
  return state == partial ? kPartial : kReplicated;
}

static AxisTransition::Move moveBetween(int64_t from, int64_t to) {
  if (from == to || (from == kReplicated && to >= 0))
    return AxisTransition::none; // a slice sends nothing
  if (to == kPartial || to == kRoutedRows || from == kRoutedRows)
    return AxisTransition::impossible;
  if (from == kPartial)
    return to == kReplicated ? AxisTransition::allReduce
                             : AxisTransition::reduceScatter;
  return to == kReplicated ? AxisTransition::allGather
                           : AxisTransition::allToAll;
}

AxisTransition dpc::transition(AxisState from, AxisState to, bool hasGradient) {
  AxisTransition result;
  result.forward =
      moveBetween(placeOf(from, axis::partial), placeOf(to, axis::partial));
  if (hasGradient)
    result.backward = moveBetween(placeOf(to, axis::gradPartial),
                                  placeOf(from, axis::gradPartial));
  return result;
}

/// Returns the state of an operand or result under a choice other than
/// `partial`. If the tensor does not have the split factor, returns `absent`.
static AxisState stateOf(const FactorAnalysis &factors, Operation *op,
                         const AxisChoice &choice, bool isResult,
                         unsigned index, AxisState absent) {
  if (choice.kind == AxisChoice::replicate)
    return axis::replicated;
  if (choice.kind == AxisChoice::gradPartial)
    return axis::gradPartial;
  int64_t position = factors.positionIn(op, isResult, index, choice.factor);
  return position < 0 ? absent : axis::firstSplit + position;
}

static bool splitsExperts(const FactorAnalysis &factors, Operation *op,
                          const AxisChoice &choice) {
  return choice.kind == AxisChoice::split &&
         choice.factor.dim == factors.rule(op).experts;
}

AxisState dpc::operandState(const FactorAnalysis &factors, Operation *op,
                            const AxisChoice &choice, unsigned index) {
  // A product of experts may read routed rows, and so may ops on such rows.
  bool readsRouted = mayBeRouted(op->getOperand(index));
  if (choice.kind == AxisChoice::routed)
    return readsRouted ? axis::routed : axis::gradPartial;
  if (choice.kind != AxisChoice::partial)
    return stateOf(factors, op, choice, false, index,
                   readsRouted && splitsExperts(factors, op, choice)
                       ? axis::routed
                       : axis::gradPartial);
  const ShardingRule &rule = factors.rule(op);
  bool isTerm = rule.movesData
                    ? index == 0
                    : llvm::is_contained(rule.linear[choice.group],
                                         static_cast<int64_t>(index));
  // The gradient of the other operand is dy times the partial operand.
  return isTerm ? axis::partial : axis::gradPartial;
}

AxisState dpc::resultState(const FactorAnalysis &factors, Operation *op,
                           const AxisChoice &choice, unsigned index) {
  if (choice.kind == AxisChoice::partial)
    return axis::partial;
  if (choice.kind == AxisChoice::routed)
    return axis::routed;
  bool routes = factors.rule(op).routes && splitsExperts(factors, op, choice);
  return stateOf(factors, op, choice, true, index,
                 routes ? axis::routed : axis::partial);
}

SmallVector<AxisChoice> dpc::choicesOf(const FactorAnalysis &factors,
                                       Operation *op, bool hasGradient) {
  SmallVector<AxisChoice> choices = {AxisChoice{}};
  const ShardingRule &rule = factors.rule(op);
  if (rule.combines)
    return choices;
  if (hasGradient)
    choices.push_back({AxisChoice::gradPartial});
  if (rule.movesData)
    choices.push_back({AxisChoice::partial});
  else
    for (int64_t group = 0, e = rule.linear.size(); group < e; ++group)
      choices.push_back({AxisChoice::partial, {}, group});
  // A product or lookup that begins a routed value splits the experts instead.
  if (mayBeRouted(op->getResult(0)) && rule.experts < 0)
    choices.push_back({AxisChoice::routed});
  for (IterFactor factor : factors.splittable(op))
    choices.push_back({AxisChoice::split, factor});
  return choices;
}
