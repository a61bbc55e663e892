//===- StepBuffers.h - Which values of a step share a buffer ----*- C++ -*-===//
//
// The memory estimate (passes/price) and plans (codegen/plan) share these
// rules. A value has a separate buffer, unless
//   * isBufferView holds for its op: the value is a part of the buffer of the
//     op's first operand;
//   * it is an updated parameter or state, or the result of an all_reduce, and
//     no later op reads the operand: it reuses the operand's buffer;
//   * an all_gather writes it, it is the next value of a parameter, and no
//     later op reads the old value: it reuses the parameter's buffer.
// The estimate and plans each add one condition on the operand's place in its
// buffer. A plan reduces parts of a buffer in place, and updates only
// contiguous operands in place. The estimate counts a second buffer if an
// operand that is reduced is a part of a buffer.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_STEPBUFFERS_H
#define DPC_IR_STEPBUFFERS_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The value that owns the buffer of `value`: the value itself unless it is a
/// view.
mlir::Value bufferRoot(mlir::Value value);

/// Whether `op` adds its first result to a sum over micro-batches, which the
/// setup phase clears.
bool addsToSum(mlir::Operation *op);

/// The purpose of a buffer that an op writes.
enum class BufferUse { gradient, communication, activation, workspace };

/// The ops of a step in execution order, and the reads and reuses of buffers
/// that follow from this order. Positions are indices of `ops`.
class StepBuffers {
public:
  StepBuffers() = default;
  /// `ops` are all ops of `step` except the terminator.
  StepBuffers(mlir::func::FuncOp step,
              llvm::SmallVector<mlir::Operation *> ops);

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  /// By buffer root: the last op that reads the buffer. A view does not count
  /// as a read.
  llvm::DenseMap<mlir::Value, int64_t> lastRead;
  /// Results that become the next value of an argument, with these arguments.
  llvm::SmallVector<std::pair<mlir::Value, mlir::BlockArgument>> ties;
  /// the results that replace no argument
  llvm::SmallVector<mlir::Value> outputs;

  /// Whether no op after `op` reads the buffer of `value`, and no result of the
  /// step is in this buffer.
  bool diesAt(mlir::Value value, mlir::Operation *op) const;
  /// The operand whose buffer `result` reuses, or null.
  mlir::OpOperand *reusedOperand(mlir::OpResult result) const;
  /// The parameter whose buffer `result` reuses as its next value, or null.
  mlir::Value reusedParameter(mlir::OpResult result) const;
  /// The last op that reads the buffer of `value`; null if no op reads this
  /// buffer, or if a result of the step is in it.
  mlir::Operation *lastReaderOf(mlir::Value value) const;
  /// The purpose of a buffer that contains only `value`, the result of an op.
  /// `lastReader` is its last reader (null: unknown or after the step).
  BufferUse useOf(mlir::Value value, mlir::Operation *lastReader) const;
  /// Records that `to` has replaced `from`, so ops now read `to` and the step
  /// returns it.
  void replace(mlir::Value from, mlir::Value to);

private:
  void findGradients(mlir::Value value);

  llvm::DenseSet<mlir::Value> results; ///< of the step, by buffer root
  llvm::DenseSet<mlir::Value> gradients;
  /// Maps the next value of an argument to the argument. The step returns the
  /// next value or a reshape of it.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> replaced;
};

} // namespace dpc

#endif // DPC_IR_STEPBUFFERS_H
