//===- Recompute.h - What the backward phase makes again --------*- C++ -*-===//
//
// The parts of dpc-recompute: the forward phase as lists of ops and values, and
// two ways to choose which values stay in memory.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_RECOMPUTE_H
#define DPC_PASSES_LOCAL_RECOMPUTE_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Ops of the forward phase, of gradients (in the micro-batch loop behind it),
/// and collectives.
bool isForward(mlir::Operation *op);
bool isBackward(mlir::Operation *op);

/// May run twice in a step.
bool isRepeatable(mlir::Operation *op);

/// The value whose buffer this is.
mlir::Value rootOf(mlir::Value value);

/// A value of the forward phase that has a buffer.
struct Made {
  mlir::Value value;
  int64_t bytes = 0;
  size_t at = 0;        ///< Position of its op in the run.
  size_t last = 0;      ///< Last position in the run that reads it.
  bool crosses = false; ///< The backward phase reads it.
};

/// Forward ops of one stage and chunk, without those of parameters only.
struct Run {
  llvm::SmallVector<mlir::Operation *> ops;
  std::vector<Made> values;
};

/// Ops and values of the forward phase.
class ForwardPhase {
public:
  explicit ForwardPhase(mlir::func::FuncOp func);

  std::vector<Run> runs;
  /// Values that are kept whatever the plan: roots.
  llvm::DenseSet<mlir::Value> fixed;

  /// Made of parameters and constants alone.
  bool isFree(mlir::Operation *op) const { return freeOps.contains(op); }
  int64_t position(mlir::Operation *op) const { return positions.lookup(op); }

private:
  void findOps(mlir::func::FuncOp func);
  void findValues();
  void describe(Run &run, size_t at, mlir::Value result);

  llvm::DenseSet<mlir::Operation *> freeOps;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, std::pair<size_t, size_t>> placeInRun;
};

/// The op of the backward phase that does what `op` does, given the operands;
/// null when there is none.
mlir::Operation *twinOf(mlir::Operation *op, mlir::ValueRange operands);

/// What `full` and `selective` keep besides `forward.fixed`: roots. `depth` and
/// `alive`, `whole` and `gather` are dpc-recompute's.
llvm::DenseSet<mlir::Value> keepForFull(const ForwardPhase &forward,
                                        mlir::func::FuncOp func, double depth,
                                        int64_t alive);
/// The same with a block for every layer.
llvm::DenseSet<mlir::Value> keepForLayers(const ForwardPhase &forward,
                                          bool whole);
llvm::DenseSet<mlir::Value> keepForSelective(const ForwardPhase &forward,
                                             double gather);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_RECOMPUTE_H
