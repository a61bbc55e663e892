//===- StrategyGraph.h - From a program to an optimization problem -*- C++ -*-//
//
// For a given strategy, chooses how the tensor and sequence axes split every
// op. Each axis is one problem (cost-model/solve/Problem.h); tensor axes are
// solved first, in mesh order. The problem of an axis includes the splits of
// the axes before it: the axis may split a factor further, and all sizes are
// those after the earlier splits. So two axes can split both dimensions of a
// weight.
//
//   nodes    every forward op with its AxisChoices, which include its gradient
//            (AxisStates.h); every argument of the function with its states;
//            and for every value with several readers a *copy* node with the
//            states of the value, so that readers in the same state pay once
//   cost     seconds of the share of one rank of the op and its gradient; for
//   cost     seconds of one rank's share of the op and its gradient; for
//   edges    seconds of the collectives in the table of AxisStates.h
//
// Rules add large finite costs, so that unusual models stay solvable. For a
// tensor axis:
//   (R1) a weight (a parameter that reaches a matmul or an embedding only
//        through data movement) is split; no parameter is gathered at use;
//   (R2) sp=false: activations are not split along the sequence; sp=true:
//        norms and elementwise ops on hidden activations are not replicated;
//   (R3) between matmuls, activations are not split along a dimension that
//        norms reduce: a reduce_scatter and an all_gather around a bias would
//        replace an all_reduce;
//   (R5) it does not split the positions of a ring;
//   (R6) if tensor axes share experts, ops on experts are split by expert;
//   (R7) an argument with dpc.user_split is split in that way, or the search
//        fails.
// For a sequence axis:
//   (R4) ops are split along the sequence if possible; parameters are not;
//   (R5) attention is split by heads (Ulysses) or by positions (a ring).
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

/// The choices for forward ops and function arguments. Ops that are not listed
/// are replicated.
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
  /// The size of this factor, and the class of the next inner factor, or -1.
  int64_t batchFactor = 0, microBatchClass = -1;
  /// Classes of the other dimensions of integer inputs (positions). Without
  /// integer inputs, the classes of the query positions of attention.
  llvm::DenseSet<int64_t> sequenceClasses;
  /// The sequence classes that rings split if positions are divided into
  /// stripes.
  llvm::DenseSet<int64_t> ringClasses;
  /// The classes that norms need whole: those of the hidden dimension.
  llvm::DenseSet<int64_t> hiddenClasses;
  /// Values with a gradient: floats that depend on a trained parameter.
  llvm::DenseSet<mlir::Value> active;
  /// The weights of (R1): arguments, and results of data movement on them.
  llvm::DenseSet<mlir::Value> weights;
  /// Trained parameters, and results of data movement on parameters alone.
  llvm::DenseSet<mlir::Value> stored;
  /// The gradient ops of each forward op (attribute dpc.group), and the
  /// reverse.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>
      gradientOps;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> forwardOf;
  /// Samples per step, or 1 without a batch.
  int64_t globalBatch = 1;

  /// True for ops that are nodes of the graph.
  bool isForward(mlir::Operation *op) const { return forward.contains(op); }
  bool hasBatch(mlir::Value value) const;
  /// True if a dimension of `value` runs along the sequence.
  bool hasSequence(mlir::Value value) const;
  /// A forward op that needs the whole batch, for example a running sum over
  /// the batch, or null. Micro-batches would change the result of this op.
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

/// Marks attention that runs as a ring (`dpc.ring`) if the strategy uses a
/// ring. Must run before ProgramFacts, because the mark changes the rule of the
/// op.
void markRings(mlir::func::FuncOp func, const LoweringSpec &spec);

/// Solves the problems of all axes. The error says why there is no solution.
Expected<ShardChoices> chooseShards(const ProgramFacts &facts,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_STRATEGYGRAPH_H
