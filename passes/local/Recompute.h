//===- Recompute.h - The parts of dpc-recompute -----------------*- C++ -*-===//
//
// The parts of dpc-recompute: the ops and values of the forward phase, and ways
// to choose the values that stay in memory. A *root* is a value that has a
// buffer; reshapes of it share the buffer.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_RECOMPUTE_H
#define DPC_PASSES_LOCAL_RECOMPUTE_H

#include "passes/local/Partition.h"

namespace dpc {

/// True for ops of the forward phase; for ops of gradients, which follow in the
/// micro-batch loop.
bool isForward(mlir::Operation *op);
bool isBackward(mlir::Operation *op);

/// True if `op` may run twice in a step.
bool isRepeatable(mlir::Operation *op);

/// A root of the forward phase.
struct Made {
  mlir::Value value;
  int64_t bytes = 0;
  size_t at = 0;        ///< Position of its op in the run.
  size_t last = 0;      ///< Last position in the run that reads it.
  bool crosses = false; ///< The backward phase reads it.
};

/// Forward ops of one stage and chunk, without those that read only parameters.
struct Run {
  llvm::SmallVector<mlir::Operation *> ops;
  std::vector<Made> values;
};

/// The forward phase of a function.
class ForwardPhase {
public:
  explicit ForwardPhase(mlir::func::FuncOp func);

  std::vector<Run> runs;
  /// Roots that are always kept.
  llvm::DenseSet<mlir::Value> fixed;

  /// True if `op` reads only parameters and constants.
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

/// An op of the backward phase that equals `op` with these operands, or null.
mlir::Operation *twinOf(mlir::Operation *op, mlir::ValueRange operands);

/// The roots to keep besides `forward.fixed`, for `full`, for `full` with a
/// block for every layer, and for `selective`. The other parameters are options
/// of dpc-recompute.
llvm::DenseSet<mlir::Value> keepForFull(const ForwardPhase &forward,
                                        mlir::func::FuncOp func, double depth,
                                        int64_t alive);
llvm::DenseSet<mlir::Value> keepForLayers(const ForwardPhase &forward,
                                          bool whole);
llvm::DenseSet<mlir::Value> keepForSelective(const ForwardPhase &forward,
                                             double gather);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_RECOMPUTE_H
