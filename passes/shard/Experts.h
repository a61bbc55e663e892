//===- Experts.h - The experts of a program --------------------*- C++ -*-===//
//
// Expert parallelism shards the experts of a mixture over the axis `ep`. In all
// other ops, the ranks of `ep` are data parallel: `ep` splits the batch, except
// in ops on experts, where it splits the experts. Reshards connect the two:
// tokens are gathered or sent (all_to_all) to the ranks of their experts, and
// the results are reduced and scattered back to the ranks of the tokens. `ep`
// splits the parameters of experts and the gradients and states of these
// parameters, so they are reduced only over the other data axes.
//
// Experts are recognized by the structure of the program, not by names. A class
// of factors of size E is a class of experts if
//   (E1) it is a dimension of a trained parameter with at least three
//        dimensions (weights stacked over experts);
//   (E2) a value of the class leads from this parameter to an op that also
//        reads a value of the class that depends on a TopK or Softmax of E
//        elements per row (the gate, or a dispatch mask).
// The parameters of the class are parameters of experts, unless they lead to an
// op that needs the class whole. In that case they are gates.
//
// An op works on experts if values of the class lead from a parameter of
// experts to the op. An op of the class before such ops also counts as an op on
// experts if splitting the experts there sends no more bytes than splitting the
// batch: then tokens that are repeated for every expert are gathered before the
// repetition, not sent after it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_EXPERTS_H
#define DPC_PASSES_SHARD_EXPERTS_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// The result of findExperts.
struct Experts {
  /// Forward ops on experts, and the factor that counts the experts.
  llvm::DenseMap<mlir::Operation *, IterFactor> ops;
  /// Parameters of experts, and the index of the factor that counts the
  /// experts.
  llvm::DenseMap<mlir::Value, int64_t> parameters;
};

/// The experts of a program for `ep` ranks; empty if it has none.
Experts findExperts(const ProgramFacts &facts, int64_t ep);

/// Appends the axis `ep` to `choices`.
void chooseExperts(const ProgramFacts &facts, const Experts &experts,
                   const MeshAxis &axis, ShardChoices &choices);

} // namespace dpc

#endif // DPC_PASSES_SHARD_EXPERTS_H
