//===- StepBuffers.h - Which values of a step share a buffer ----*- C++ -*-===//
// Decides which values of a step share a buffer, for the memory estimate
// (passes/price) and for plans (codegen/plan). A value has a separate buffer,
// except in three cases:
// * isBufferView is true for its op: the value is a part of the buffer of the
//   op's first operand.
// * The value is an updated parameter or state, or the result of an all_reduce,
//   and no later op reads the operand: the value reuses the operand's buffer.
// * An all_gather writes the value, which is the next value of a parameter, and
//   no later op reads the old value: the value reuses the parameter's buffer.
//
// If the operand is only a part of a buffer, a plan runs an all_reduce in
// place, and an update in place if the part is contiguous. The estimate counts
// a second buffer for the all_reduce.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the value that owns the buffer: `value` itself, or the source of a
/// view.
mlir::Value bufferRoot(mlir::Value value);

/// Returns whether the first result of `op` is added to a sum over
/// micro-batches.
bool addsToSum(mlir::Operation *op);

enum class BufferUse { gradient, communication, activation, workspace };

/// Lists the ops of a step in execution order, the last reader of each buffer,
/// and which results reuse a buffer. Positions are indices of `ops`.
class StepBuffers {
public:
  StepBuffers() = default;
  /// `ops` are all ops of `step` except the terminator.
  StepBuffers(mlir::func::FuncOp step,
              llvm::SmallVector<mlir::Operation *> ops);

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  /// By buffer root: the position of the last reader. Views do not count as
  /// readers.
  llvm::DenseMap<mlir::Value, int64_t> lastRead;
  /// Each pair (result, argument) whose result is the argument's next value.
  llvm::SmallVector<std::pair<mlir::Value, mlir::BlockArgument>> ties;
  /// results that are not the next value of an argument
  llvm::SmallVector<mlir::Value> outputs;

  /// Returns whether the buffer of `value` is unused after `op`: no later op
  /// reads it, and it contains no result of the step.
  bool diesAt(mlir::Value value, mlir::Operation *op) const;
  /// Returns the operand whose buffer `result` reuses, or null.
  mlir::OpOperand *reusedOperand(mlir::OpResult result) const;
  /// Returns the parameter whose buffer its next value `result` reuses, or
  /// null.
  mlir::Value reusedParameter(mlir::OpResult result) const;
  /// Returns the last op that reads the buffer of `value`, or null if there is
  /// none or the buffer contains a result of the step.
  mlir::Operation *lastReaderOf(mlir::Value value) const;
  /// Returns the purpose of the buffer of `value`, an op's result that shares
  /// its buffer with no other value. `lastReader` is null if the last reader is
  /// unknown or runs after the step.
  BufferUse useOf(mlir::Value value, mlir::Operation *lastReader) const;
  /// Updates the tables after `to` has replaced `from` in the program.
  void replace(mlir::Value from, mlir::Value to);

private:
  void findGradients(mlir::Value value);

  llvm::DenseSet<mlir::Value> results; ///< buffer roots of the step's results
  llvm::DenseSet<mlir::Value> gradients;
  /// Maps the next value of an argument to the argument. The step may return a
  /// reshape of the next value.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> replaced;
};

} // namespace dpc
