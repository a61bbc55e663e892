//===- AxisStates.h - Forward and backward placement of a value ---*- C++
//-*-===//
//
// Search decides about an op and its gradient together, so a value's state over
// the axis that is solved for tells both how the value lies and how its
// gradient does:
//
//   state          value        gradient
//   replicated     replicated   replicated   every rank does the same work
//   gradPartial    replicated   partial sum  input of a column-parallel matmul
//   partial        partial sum  replicated   output of a row-parallel matmul
//   split k        split on its factor k, both
//
// Going from one state to another costs a collective forward, backward or both.
// Megatron's f and g are two cells of this table:
//
//   from \ to      replicated     gradPartial      partial  split
//   replicated     -              bwd all_reduce   no       bwd all_gather
//   gradPartial    no             -                no       no
//   partial        fwd all_reduce both all_reduce  -        fwd reduce_scatter,
//                                                           bwd all_gather
//   split          fwd all_gather fwd all_gather,  no       same factor: -
//                                 bwd reduce_scatter        else all_to_all
//                                 twice
//
// (gradPartial to replicated would have to turn a replicated gradient into a
// partial one.) Values without gradient pay the forward part only.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_AXISSTATES_H
#define DPC_PASSES_SHARD_AXISSTATES_H

#include "passes/shard/Factors.h"

namespace dpc {

/// What one axis does in an op (and in its gradient).
struct AxisChoice {
  enum Kind { replicate, gradPartial, partial, split };
  Kind kind = replicate;
  IterFactor factor;  ///< split: what is split.
  int64_t group = -1; ///< partial: index into ShardingRule::linear.
};

/// A value's state: one of the first three, or firstSplit + factor index.
using AxisState = int64_t;
namespace axis {
inline constexpr AxisState replicated = 0, gradPartial = 1, partial = 2,
                           firstSplit = 3;
} // namespace axis

/// Collectives of going from one state to another.
struct AxisTransition {
  enum Move { none, allReduce, reduceScatter, allGather, allToAll, impossible };
  static constexpr size_t kNumMoves = impossible + 1;
  Move forward = none;
  Move backward = none;
};

/// The table of the file comment.
AxisTransition transition(AxisState from, AxisState to, bool hasGradient);

/// The state an op with `choice` needs operand `index` in.
AxisState operandState(const FactorAnalysis &factors, mlir::Operation *op,
                       const AxisChoice &choice, unsigned index);
/// The state an op with `choice` leaves result `index` in.
AxisState resultState(const FactorAnalysis &factors, mlir::Operation *op,
                      const AxisChoice &choice, unsigned index);

/// All choices of `op`, replicate first. Those that only differ in how
/// gradients flow are left out when `hasGradient` is false.
llvm::SmallVector<AxisChoice> choicesOf(const FactorAnalysis &factors,
                                        mlir::Operation *op, bool hasGradient);

} // namespace dpc

#endif // DPC_PASSES_SHARD_AXISSTATES_H
