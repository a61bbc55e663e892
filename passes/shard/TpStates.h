//===- TpStates.h - Forward and backward placement of a value ---*- C++ -*-===//
//
// Search decides about an op and its gradient together, so a value's state over
// the tensor-parallel axis tells both how the value lies and how its gradient
// does:
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
#ifndef DPC_PASSES_SHARD_TPSTATES_H
#define DPC_PASSES_SHARD_TPSTATES_H

#include "passes/shard/Factors.h"

namespace dpc {

/// What the tensor-parallel axis does in an op (and in its gradient).
struct TpChoice {
  enum Kind { replicate, gradPartial, partial, split };
  Kind kind = replicate;
  IterFactor factor;  ///< split: what is split.
  int64_t group = -1; ///< partial: index into ShardingRule::linear.
};

/// A value's state: one of the first three, or firstSplit + factor index.
using TpState = int64_t;
namespace tp {
inline constexpr TpState replicated = 0, gradPartial = 1, partial = 2,
                         firstSplit = 3;
} // namespace tp

/// Collectives of going from one state to another.
struct TpTransition {
  enum Move { none, allReduce, reduceScatter, allGather, allToAll, impossible };
  Move forward = none;
  Move backward = none;
};

/// The table of the file comment.
TpTransition transition(TpState from, TpState to, bool hasGradient);

/// The state an op with `choice` needs operand `index` in.
TpState operandState(const FactorAnalysis &factors, mlir::Operation *op,
                     const TpChoice &choice, unsigned index);
/// The state an op with `choice` leaves result `index` in.
TpState resultState(const FactorAnalysis &factors, mlir::Operation *op,
                    const TpChoice &choice, unsigned index);

/// All choices of `op`, replicate first. Those that only differ in how
/// gradients flow are left out when `hasGradient` is false.
llvm::SmallVector<TpChoice> choicesOf(const FactorAnalysis &factors,
                                      mlir::Operation *op, bool hasGradient);

} // namespace dpc

#endif // DPC_PASSES_SHARD_TPSTATES_H
