//===- AxisStates.h - States of a value and its gradient --------*- C++ -*-===//
//
// The search decides about an op and its gradient together. For the mesh axis
// that is being solved, the state of a value therefore determines how both the
// value and its gradient are placed:
//
//   state          value        gradient
//   replicated     replicated   replicated   every rank does the same work
//   gradPartial    replicated   partial sum  input of a column-parallel matmul
//   partial        partial sum  replicated   output of a row-parallel matmul
//   routed         both are routed (ir/Sharding.h)
//   split k        both are split on factor k of the value
//
// A transition between states costs a collective in the forward pass, the
// backward pass or both. In this table, `replicated` to `gradPartial` is
// Megatron-LM's f, and `partial` to `replicated` is its g:
//
//   from \ to      replicated     gradPartial      partial  split
//   replicated     -              bwd all_reduce   no       bwd all_gather
//   gradPartial    no             -                no       no
//   partial        fwd all_reduce both all_reduce  -        fwd reduce_scatter,
//                                                           bwd all_gather
//   split          fwd all_gather fwd all_gather,  no       same factor: -
//                                 bwd reduce_scatter        else all_to_all
//                                                           both
//
// Transitions marked "no" are impossible. For example, from gradPartial to
// replicated, the gradient would have to change from replicated to partial.
// Values without a gradient pay only the forward part. No collective leads to
// or from `routed`: only products of experts begin and end routed values.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/shard/Factors.h"

namespace dpc {

struct AxisChoice {
  enum Kind { replicate, gradPartial, partial, routed, split };
  Kind kind = replicate;
  IterFactor factor = {}; ///< For `split`.
  int64_t group = -1;     ///< For `partial`, an index of ShardingRule::linear.
  bool operator==(const AxisChoice &) const = default;
};

/// One of the first four states, or firstSplit + the split factor's index.
using AxisState = int64_t;
namespace axis {
inline constexpr AxisState replicated = 0, gradPartial = 1, partial = 2,
                           routed = 3, firstSplit = 4;
} // namespace axis

struct AxisTransition {
  enum Move { none, allReduce, reduceScatter, allGather, allToAll, impossible };
  static constexpr size_t kNumMoves = impossible + 1;
  Move forward = none;
  Move backward = none;
};

/// Returns an entry of the table in the file comment.
AxisTransition transition(AxisState from, AxisState to, bool hasGradient);

/// Returns the state of operand `index` that an op with `choice` needs.
AxisState operandState(const FactorAnalysis &factors, mlir::Operation *op,
                       const AxisChoice &choice, unsigned index);
/// Returns the state of result `index` that an op with `choice` produces.
AxisState resultState(const FactorAnalysis &factors, mlir::Operation *op,
                      const AxisChoice &choice, unsigned index);

/// Returns all choices of `op`; the first is `replicate`. If the op has no
/// gradient, choices that differ only in the gradient are listed once.
llvm::SmallVector<AxisChoice> choicesOf(const FactorAnalysis &factors,
                                        mlir::Operation *op, bool hasGradient);

} // namespace dpc
