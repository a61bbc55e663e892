//===- AxisStates.h - States of a value and its gradient --------*- C++ -*-===//
//
// The search decides about an op and its gradient together. So for the axis
// that is being solved, the state of a value determines the placement of both
// the value and its gradient:
//
//   state          value        gradient
//   replicated     replicated   replicated   every rank does the same work
//   gradPartial    replicated   partial sum  input of a column-parallel matmul
//   partial        partial sum  replicated   output of a row-parallel matmul
//   split k        both are split on factor k of the value
//
// A transition between states costs a collective forward, backward or both. Two
// cells of this table are Megatron-LM's f and g:
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
// (Replicating a gradPartial value would make its replicated gradient partial.)
// Values without a gradient pay only the forward part.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_AXISSTATES_H
#define DPC_PASSES_SHARD_AXISSTATES_H

#include "passes/shard/Factors.h"

namespace dpc {

/// How one axis splits an op and the gradient of the op.
struct AxisChoice {
  enum Kind { replicate, gradPartial, partial, split };
  Kind kind = replicate;
  IterFactor factor = {}; ///< The factor to split.
  int64_t group = -1; ///< For a partial op: an index of ShardingRule::linear.
};

/// The state of a value: one of the first three states, or firstSplit + the
/// index of the split factor.
using AxisState = int64_t;
namespace axis {
inline constexpr AxisState replicated = 0, gradPartial = 1, partial = 2,
                           firstSplit = 3;
} // namespace axis

/// The collectives that a transition needs.
struct AxisTransition {
  enum Move { none, allReduce, reduceScatter, allGather, allToAll, impossible };
  static constexpr size_t kNumMoves = impossible + 1;
  Move forward = none;
  Move backward = none;
};

/// Returns an entry of the table in the file comment.
AxisTransition transition(AxisState from, AxisState to, bool hasGradient);

/// The state in which an op with `choice` needs operand `index`.
AxisState operandState(const FactorAnalysis &factors, mlir::Operation *op,
                       const AxisChoice &choice, unsigned index);
/// The state in which an op with `choice` leaves result `index`.
AxisState resultState(const FactorAnalysis &factors, mlir::Operation *op,
                      const AxisChoice &choice, unsigned index);

/// All choices of `op`; the first is `replicate`. Without a gradient, choices
/// that differ only in the gradient are listed once.
llvm::SmallVector<AxisChoice> choicesOf(const FactorAnalysis &factors,
                                        mlir::Operation *op, bool hasGradient);

} // namespace dpc

#endif // DPC_PASSES_SHARD_AXISSTATES_H
