//===- StepBuffers.h - Which values of a step share a buffer ----*- C++ -*-===//
//
// The estimate of memory (passes/price) and plans (codegen/plan) share these
// rules. A value has a buffer of its own, unless
//   * isBufferView holds for its op: the value is a part of the buffer of the
//     op's first operand;
//   * it is an updated parameter or state, or the result of an all_reduce, and
//     no later op reads the operand: it reuses the operand's buffer;
//   * an all_gather writes it, it is the next value of a parameter, and no
//   later
//     op reads the old value: it reuses the parameter's buffer.
// Each user adds one condition on how the operand lies in its buffer: a plan
// reduces parts of a buffer in place and updates contiguous operands only; the
// estimate counts another buffer for a reduced part.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_STEPBUFFERS_H
#define DPC_IR_STEPBUFFERS_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The value of whose buffer `value` is a view; `value` itself if it is none.
mlir::Value bufferRoot(mlir::Value value);

/// Whether `op` adds its first result to a sum over micro-batches, which the
/// setup phase clears.
bool addsToSum(mlir::Operation *op);

/// What a buffer that an op writes is used for.
enum class BufferUse { gradient, communication, activation, workspace };

/// The ops of a step in the order in which they run, and what follows from it.
/// Positions are indices of `ops`.
class StepBuffers {
public:
  StepBuffers() = default;
  /// `ops` are all ops of `step` but the terminator.
  StepBuffers(mlir::func::FuncOp step,
              llvm::SmallVector<mlir::Operation *> ops);

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  /// By buffer root: the last op that reads the buffer. Views do not read.
  llvm::DenseMap<mlir::Value, int64_t> lastRead;
  /// Results that replace the value of an argument, and these arguments.
  llvm::SmallVector<std::pair<mlir::Value, mlir::BlockArgument>> ties;
  llvm::SmallVector<mlir::Value> outputs; ///< the other results

  /// Whether no op after `op` reads the buffer of `value`, and no result of the
  /// step is in this buffer.
  bool diesAt(mlir::Value value, mlir::Operation *op) const;
  /// The operand whose buffer `result` reuses, or null.
  mlir::OpOperand *reusedOperand(mlir::OpResult result) const;
  /// The parameter whose buffer `result` reuses as its next value, or null.
  mlir::Value reusedParameter(mlir::OpResult result) const;
  /// The last op that reads the buffer of `value`; null without one, or if a
  /// result of the step is in this buffer.
  mlir::Operation *lastReaderOf(mlir::Value value) const;
  /// The use of a buffer that contains only `value`, the result of an op, until
  /// `lastReader` (null: unknown or after the step).
  BufferUse useOf(mlir::Value value, mlir::Operation *lastReader) const;
  /// Makes `to`, which has replaced `from`, be read and returned in its place.
  void replace(mlir::Value from, mlir::Value to);

private:
  void findGradients(mlir::Value value);

  llvm::DenseSet<mlir::Value> results; ///< of the step, by buffer root
  llvm::DenseSet<mlir::Value> gradients;
  /// Arguments by their next values, whose reshapes are the step's results.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> replaced;
};

} // namespace dpc

#endif // DPC_IR_STEPBUFFERS_H
