//===- StrategyGraph.h - From a program to an optimization problem -*- C++ -*-//
//
// Chooses, for given spec, what the tensor and sequence axes do in every op:
// one problem (cost-model/solve/Problem.h) per axis, tensor axes first, in mesh
// order. Each axis sees what the ones before it have split: a factor that is
// taken may be split further, and everything has the size that is left of it.
// So a weight can end up split on both of its dimensions, each by its own axis.
//
//   nodes    every forward op (its gradient goes along, see AxisStates.h) with
//            its AxisChoices; every function argument with its states; and for
//            every value with several readers a *copy* node with the value's
//            states, so that readers which want the same state pay once
//   cost     seconds of the op and its gradient on its share of the work;
//            for parameters the data-parallel reduction and the update
//   edges    seconds of the collectives of AxisStates.h's table
//
// Rules on top (as large finite costs, so that odd models stay solvable). For a
// tensor axis:
//   (R1) a weight (a parameter that reaches a matmul or an embedding through
//        data movement only) is split; no parameter is gathered at use;
//   (R2) sp=false: activations are not split along the sequence; sp=true:
//        norms and elementwise ops on hidden activations are not replicated;
//   (R3) between matmuls, activations are not split along a dimension that
//        norms run over: it would trade an all_reduce for a reduce_scatter and
//        an all_gather around a bias.
//   (R7) an argument with dpc.user_split is split as that says (or it fails).
//   (R5) the positions of a ring are the sequence axis' alone.
//   (R6) where tensor axes share experts, ops that work on those split them.
// For a sequence axis:
//   (R4) an op that can be split along the sequence is; parameters are not
//        split;
//   (R5) attention splits its heads (Ulysses), or its positions (a ring).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_STRATEGYGRAPH_H
#define DPC_PASSES_SHARD_STRATEGYGRAPH_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/solve/Problem.h"
#include "passes/shard/AxisStates.h"
#include "passes/shard/Degrees.h"

namespace dpc {

/// What one op does over each solved axis, in the order of ShardChoices::axes.
using AxisChoices = llvm::SmallVector<AxisChoice, 1>;
/// How an argument lies over each of them.
using AxisStates = llvm::SmallVector<AxisState, 1>;

/// What was chosen, for forward ops and for function arguments. Ops that are
/// missing (all, without solved axes) are replicated.
struct ShardChoices {
  /// The axes that were solved for, in the order in which they were: later ones
  /// split what earlier ones have left.
  std::vector<MeshAxis> axes;
  llvm::DenseMap<mlir::Operation *, AxisChoices> ops;
  llvm::DenseMap<mlir::Value, AxisStates> arguments;
};

/// Facts about a function that do not depend on the degrees; made once and
/// shared by all candidates.
class ProgramFacts {
public:
  explicit ProgramFacts(mlir::func::FuncOp func);

  mlir::func::FuncOp func;
  FactorAnalysis factors;
  /// Class of the inputs' batch dimensions; -1 when there is none.
  int64_t batchClass = -1;
  /// Size of that factor, and the class of the one behind it; -1 = none.
  int64_t batchFactor = 0, microBatchClass = -1;
  /// Classes of the other dimensions of integer inputs: positions. Without any,
  /// those of attention's queries.
  llvm::DenseSet<int64_t> sequenceClasses;
  /// Those of them that rings split, where they are cut into stripes.
  llvm::DenseSet<int64_t> ringClasses;
  /// Classes that norms need whole: the hidden dimension.
  llvm::DenseSet<int64_t> hiddenClasses;
  /// Values with a gradient (float, depend on a trained parameter).
  llvm::DenseSet<mlir::Value> active;
  /// Weights of (R1): arguments, and what data movement makes of them.
  llvm::DenseSet<mlir::Value> weights;
  /// Trained parameters, and what data movement alone makes of them.
  llvm::DenseSet<mlir::Value> stored;
  /// Gradient ops by forward op (attribute dpc.group), and back.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>
      gradientOps;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> forwardOf;
  /// Samples per step, or 1 without a batch.
  int64_t globalBatch = 1;

  /// True for ops that get a node of their own.
  bool isForward(mlir::Operation *op) const { return forward.contains(op); }
  /// True when some dimension of `value` is of the batch class.
  bool hasBatch(mlir::Value value) const;
  /// True when some dimension of `value` is along the sequence.
  bool hasSequence(mlir::Value value) const;
  /// A forward op that reads the batch as a whole, as a running sum over it
  /// does: micro-batches would change what it computes. nullptr without one.
  mlir::Operation *wholeBatchOp() const;
  /// True when `factor` of `op` is along the sequence.
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

/// Marks attention that can run as a ring (`dpc.ring`) where the degrees ask
/// for it. Stands before ProgramFacts: the mark changes the op's rule.
void markRings(mlir::func::FuncOp func, const LoweringSpec &spec);

/// Solves for the choices. The error names what made it fail.
Expected<ShardChoices> chooseShards(const ProgramFacts &facts,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_STRATEGYGRAPH_H
