//===- Experts.h - Which ops work on experts --------------------*- C++ -*-===//
//
// Expert parallelism spreads the experts of a mixture over the axis `ep`. The
// ranks of that axis are data parallel everywhere else: `ep` splits the batch,
// except in ops that work on experts, where it splits those instead. What lies
// between the two are reshards: tokens are gathered or sent (all-to-all) to the
// ranks of their experts, and what experts give is summed and scattered back
// (reduce-scatter) to the ranks of the tokens. Parameters of experts, their
// gradients and states are split over `ep`, hence reduced over the other data
// axes only.
//
// Experts are found in the program, not by name. A class of factors of size E
// is one of experts when
//   (E1) a trained parameter of three or more dimensions has it as a dimension
//        (weights stacked over experts);
//   (E2) an op that is reached from this parameter through values of the class
//        meets a value of the class that depends on a TopK or a Softmax of E
//        elements per row (the gate, or a dispatch mask).
// The parameters of the class are those of experts, unless they reach, through
// values of the class, an op that needs it whole: those are gates.
//
// Ops work on experts when they read, through values of the class, a parameter
// of experts; and ops of the class before them, where splitting experts there
// already sends less than splitting the batch does: tokens that are repeated
// for every expert are gathered before, not sent after.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_EXPERTS_H
#define DPC_PASSES_SHARD_EXPERTS_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// What findExperts finds.
struct Experts {
  /// Forward ops that work on experts, and the factor that counts them.
  llvm::DenseMap<mlir::Operation *, IterFactor> ops;
  /// Parameters of experts, and which of their factors counts them.
  llvm::DenseMap<mlir::Value, int64_t> parameters;
};

/// Finds the experts of a program for `ep` ranks; empty when it has none.
Experts findExperts(const ProgramFacts &facts, int64_t ep);

/// Appends the axis `ep` to `choices`.
void chooseExperts(const ProgramFacts &facts, const Experts &experts,
                   const MeshAxis &axis, ShardChoices &choices);

} // namespace dpc

#endif // DPC_PASSES_SHARD_EXPERTS_H
