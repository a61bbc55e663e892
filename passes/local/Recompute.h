//===- Recompute.h - The parts of dpc-recompute -----------------*- C++ -*-===//
//
// Describes the forward phase and chooses the values that stay in memory. A
// *root* is a value with a buffer; reshapes of a root share its buffer.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/local/Partition.h"

namespace dpc {

/// isForward: phase forward. isBackward: phase backward or weight.
bool isForward(mlir::Operation *op);
bool isBackward(mlir::Operation *op);

/// True if `op` may run twice in a step.
bool isRepeatable(mlir::Operation *op);

/// A root of the forward phase.
struct Made {
  mlir::Value value;
  int64_t bytes = 0;
  size_t at = 0;        ///< Position of its op in the run.
  size_t last = 0;      ///< Position of its last reader in the run.
  bool crosses = false; ///< The backward phase reads it.
};

/// Forward ops of one stage and chunk, except ops that read only parameters.
struct Run {
  llvm::SmallVector<mlir::Operation *> ops;
  std::vector<Made> values;
};

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

/// Returns a backward op that equals `op` with `operands`, or null.
mlir::Operation *twinOf(mlir::Operation *op, mlir::ValueRange operands);

/// The options of dpc-recompute for blocks.
struct BlockOptions {
  int64_t omittedLayers = 0, alive = 0, blockLayers = 0;
};

/// Return the roots to keep besides `forward.fixed` for the mode `full`, for
/// `full` with `layers`, and for `selective`. The other parameters are options
/// of dpc-recompute. keepForFull sets the attribute dpc.block_layers.
llvm::DenseSet<mlir::Value> keepForFull(const ForwardPhase &forward,
                                        mlir::func::FuncOp func,
                                        const BlockOptions &options);
llvm::DenseSet<mlir::Value> keepForLayers(const ForwardPhase &forward,
                                          mlir::func::FuncOp func, bool whole);
llvm::DenseSet<mlir::Value> keepForSelective(const ForwardPhase &forward,
                                             double gather,
                                             double gatherTokens);

} // namespace dpc
