//===- Experts.h - The experts of a program --------------------*- C++ -*-===//
//
// Expert parallelism shards the experts of a mixture over the axis `ep`. In all
// other ops, `ep` shards the batch like a data-parallel axis. Reshards connect
// both kinds of ops: tokens are gathered, or an all_to_all sends them to the
// ranks of their experts. The results are reduced and scattered to the ranks of
// the tokens. `ep` also shards the parameters of experts, with their gradients
// and states, so these gradients are reduced only over the other data axes.
//
// Experts are recognized by the structure of the program, not by names. A class
// of factors of size E is a class of experts if both conditions hold:
//   (E1) The class is a dimension of a trained parameter with at least three
//        dimensions (weights stacked over experts).
//   (E2) Values of the class lead from this parameter to an op that also reads
//        the gate or a dispatch mask: a value of the class that depends on a
//        TopK or Softmax of E elements per row. Or an op looks up the experts
//        of rows in the class (dpc.expert_matmul).
// The parameters of the class are parameters of experts. A parameter that leads
// to an op that needs the class whole is a gate instead.
//
// An op is an op on experts if values of the class lead to it from a parameter
// of experts. An earlier op of the class is also an op on experts if splitting
// its experts sends no more bytes than splitting its batch. For example, an op
// that repeats tokens for every expert reads gathered tokens.
//
// Around products of experts, two more kinds of ops read gathered tokens: ops
// on routed rows (ExpertRows.h), and linear ops after the last product, which
// keep its partial sums until the choices of each token are summed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/shard/StrategyGraph.h"

namespace dpc {

struct Experts {
  /// The choices of forward ops on experts. Most split the factor that counts
  /// the experts.
  llvm::DenseMap<mlir::Operation *, AxisChoice> ops;
  /// Parameters of experts, and the index of the factor of experts in each.
  llvm::DenseMap<mlir::Value, int64_t> parameters;
};

/// Finds the experts of a program for `ep` ranks. The result may be empty.
Experts findExperts(const ProgramFacts &facts, int64_t ep);

/// Appends the axis `ep` to `choices`.
void chooseExperts(const ProgramFacts &facts, const Experts &experts,
                   const MeshAxis &axis, ShardChoices &choices);

} // namespace dpc
