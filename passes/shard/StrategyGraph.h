//===- StrategyGraph.h - From a program to an optimization problem -*- C++ -*-//
//
// Chooses, for a given strategy, what the tensor and sequence axes do in every
// op: one problem (cost-model/solve/Problem.h) per axis, tensor axes first, in
// mesh order. An axis sees the splits of the axes before it: it may split a
// factor further, and all sizes are those that are left. So two axes can split
// both dimensions of a weight.
//
//   nodes    every forward op with its AxisChoices, which include its gradient
//            (AxisStates.h); every argument of the function with its states;
//            and for every value with several readers a *copy* node with the
//            states of the value, so that readers in the same state pay once
//   cost     seconds of the share of one rank of the op and its gradient; for
//            parameters also the data-parallel reduction and the update
//   edges    seconds of the collectives in the table of AxisStates.h
//
// Rules add large finite costs, so that unusual models stay solvable. For a
// tensor axis:
//   (R1) a weight (a parameter that reaches a matmul or an embedding through
//        data movement only) is split; no parameter is gathered at use;
//   (R2) sp=false: activations are not split along the sequence; sp=true:
//        norms and elementwise ops on hidden activations are not replicated;
//   (R3) between matmuls, activations are not split along a dimension that
//        norms reduce: a reduce_scatter and an all_gather around a bias would
//        replace an all_reduce;
//   (R5) it does not split the positions of a ring;
//   (R6) if tensor axes share experts, ops on experts are split by expert;
//   (R7) an argument with dpc.user_split is split so, or the search fails.
// For a sequence axis:
//   (R4) ops are split along the sequence if they can be, parameters are not;
//   (R5) attention splits its heads (Ulysses), or its positions (a ring).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_STRATEGYGRAPH_H
#define DPC_PASSES_SHARD_STRATEGYGRAPH_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/solve/Problem.h"
#include "passes/shard/AxisStates.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

/// The choices of one op, in the order of ShardChoices::axes.
using AxisChoices = llvm::SmallVector<AxisChoice, 1>;
/// The states of one argument, in the same order.
using AxisStates = llvm::SmallVector<AxisState, 1>;

/// The choices for forward ops and function arguments. Missing ops are
/// replicated.
struct ShardChoices {
  /// The axes in the order in which they were solved.
  std::vector<MeshAxis> axes;
  llvm::DenseMap<mlir::Operation *, AxisChoices> ops;
  llvm::DenseMap<mlir::Value, AxisStates> arguments;
};

/// Facts about a function that do not depend on the strategy. All candidates
/// share them.
class ProgramFacts {
public:
  explicit ProgramFacts(mlir::func::FuncOp func);

  mlir::func::FuncOp func;
  FactorAnalysis factors;
  /// Class of the batch dimensions of the inputs; -1 if there is none.
  int64_t batchClass = -1;
  /// Size of that factor, and the class of the factor inside it, or -1.
  int64_t batchFactor = 0, microBatchClass = -1;
  /// Classes of the other dimensions of integer inputs (positions); without
  /// such inputs, those of the queries of attention.
  llvm::DenseSet<int64_t> sequenceClasses;
  /// The sequence classes that rings split, if positions are cut into stripes.
  llvm::DenseSet<int64_t> ringClasses;
  /// Classes that norms need whole: the hidden dimension.
  llvm::DenseSet<int64_t> hiddenClasses;
  /// Values with a gradient: floats that depend on a trained parameter.
  llvm::DenseSet<mlir::Value> active;
  /// The weights of (R1): arguments, and results of data movement on them.
  llvm::DenseSet<mlir::Value> weights;
  /// Trained parameters, and results of data movement on them alone.
  llvm::DenseSet<mlir::Value> stored;
  /// Gradient ops by forward op (attribute dpc.group), and the reverse.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>
      gradientOps;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> forwardOf;
  /// Samples per step, or 1 without a batch.
  int64_t globalBatch = 1;

  /// True for ops with a node.
  bool isForward(mlir::Operation *op) const { return forward.contains(op); }
  bool hasBatch(mlir::Value value) const;
  /// True if a dimension of `value` is along the sequence.
  bool hasSequence(mlir::Value value) const;
  /// A forward op that needs the whole batch, for example a running sum over
  /// it, or null. Micro-batches would change its result.
  mlir::Operation *wholeBatchOp() const;
  bool isSequence(mlir::Operation *op, IterFactor factor) const;

private:
  llvm::DenseSet<mlir::Operation *> forward;

  void findForward();
  void findInputs();
  void findRings();
  void findHidden();
  void findGroups();
  void findWeights();
};

/// Marks attention that runs as a ring (`dpc.ring`) if the strategy has one.
/// Must run before ProgramFacts, because it changes the rule of the op.
void markRings(mlir::func::FuncOp func, const LoweringSpec &spec);

/// Solves all problems. The error says why there is no solution.
Expected<ShardChoices> chooseShards(const ProgramFacts &facts,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_STRATEGYGRAPH_H
