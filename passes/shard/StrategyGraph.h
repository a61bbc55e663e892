//===- StrategyGraph.h - From a program to an optimization problem -*- C++ -*-//
//
// Chooses how the tensor and sequence axes of a strategy split every op. Each
// axis is one problem (cost-model/solve/Problem.h). Tensor axes are solved
// first, in mesh order. Sizes in the problem of an axis are those after the
// splits of earlier axes, and the axis may split a factor further. So two axes
// can split both dimensions of a weight.
//
//   nodes    Every forward op, whose options are the AxisChoices of the op and
//            its gradient (AxisStates.h). Every argument of the function, whose
//            options are its states. For every value with several readers, a
//            *copy* node whose options are the states of the value, so that
//            readers in the same state pay for one reshard.
//   costs    The seconds that one rank spends on an op and its gradient, or on
//            the update of an argument.
//   edges    The seconds of the collectives in the table of AxisStates.h.
//
// Rules add large finite costs, so that unusual models also have a solution.
// For a tensor axis:
//   (R1) A weight is split, and no parameter is gathered at use. A weight is a
//        parameter that reaches a matmul or an embedding only through data
//        movement.
//   (R2) With sp=false, activations are not split along the sequence. With
//        sp=true, norms and elementwise ops on hidden activations are not
//        replicated.
//   (R3) Between matmuls, activations are not split along a dimension that
//        norms reduce. Otherwise a reduce_scatter and an all_gather around a
//        bias could replace an all_reduce.
//   (R5) The positions of a ring are not split.
//   (R6) If tensor axes share experts, ops on experts are split by expert.
//   (R7) An argument with dpc.user_split is split in this way, or the search
//        fails.
// For a sequence axis:
//   (R4) Ops are split along the sequence if possible. Parameters are not
//   split. (R5) Attention is split by heads (Ulysses) or by positions (a ring).
// For both:
//   (R8) If experts are split, their rows are not resharded between the first
//        product and the sum over the choices of a token, because
//        dpc-tile-experts computes them in tiles without collectives.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/solve/Problem.h"
#include "passes/shard/AxisStates.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

/// The choices of one op, in the order of ShardChoices::axes.
using AxisChoices = llvm::SmallVector<AxisChoice, 1>;
/// The states of one argument, in the order of ShardChoices::axes.
using AxisStates = llvm::SmallVector<AxisState, 1>;

/// The choices for forward ops and arguments. Other ops are replicated.
struct ShardChoices {
  /// In the order in which they were solved.
  std::vector<MeshAxis> axes;
  llvm::DenseMap<mlir::Operation *, AxisChoices> ops;
  llvm::DenseMap<mlir::Value, AxisStates> arguments;
};

/// Facts about a function that do not depend on the strategy, so that all
/// candidates share them.
class ProgramFacts {
public:
  explicit ProgramFacts(mlir::func::FuncOp func);

  mlir::func::FuncOp func;
  FactorAnalysis factors;
  /// The class of the batch dimensions of the inputs, or -1.
  int64_t batchClass = -1;
  /// The size of the batch factor, and the class of the next factor or -1.
  int64_t batchFactor = 0, microBatchClass = -1;
  /// The classes of the other dimensions of integer inputs (positions). Without
  /// integer inputs, the classes of the query positions of attention.
  llvm::DenseSet<int64_t> sequenceClasses;
  /// The classes in sequenceClasses that ring attention splits if each rank
  /// gets stripes of the positions.
  llvm::DenseSet<int64_t> ringClasses;
  /// The classes of the hidden dimension, which norms need whole.
  llvm::DenseSet<int64_t> hiddenClasses;
  /// Values with a gradient: floats that depend on a trained parameter.
  llvm::DenseSet<mlir::Value> active;
  /// The weights of (R1): arguments, and results of moving their data.
  llvm::DenseSet<mlir::Value> weights;
  /// Parameters, and results of ops that only move the data of one parameter.
  llvm::DenseSet<mlir::Value> stored;
  /// Maps forward ops to their gradient ops (attribute dpc.group), and back.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>
      gradientOps;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> forwardOf;
  /// Samples per step; 1 without a batch.
  int64_t globalBatch = 1;

  /// Returns true if `op` is a node of the graph.
  bool isForward(mlir::Operation *op) const { return forward.contains(op); }
  bool hasBatch(mlir::Value value) const;
  bool hasSequence(mlir::Value value) const;
  /// Returns a forward op that needs the whole batch, such as a running sum
  /// over the batch, or null. Micro-batches would change the result of this op.
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

/// If the strategy uses a ring, marks attention that runs as a ring
/// (`dpc.ring`), and replaces its windows by masks. Must run before
/// ProgramFacts, because the mark changes the rule of the op.
void markRings(mlir::func::FuncOp func, const LoweringSpec &spec);

/// Solves the problems of all axes. Fails if one has no solution.
Expected<ShardChoices> chooseShards(const ProgramFacts &facts,
                                    const cost::Cluster &cluster,
                                    const LoweringSpec &spec);

} // namespace dpc
