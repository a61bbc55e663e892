//===- StepLiveness.h - The lifetimes of a step's buffers -------*- C++ -*-===//
// Private to passes/price. StepEstimate.h describes the rules.
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Lifetimes.h"
#include "ir/StepBuffers.h"
#include "passes/price/StepEstimate.h"

namespace dpc {

/// Returns the `dpc.role` of an argument of `step`, or "".
llvm::StringRef roleOf(mlir::func::FuncOp step, mlir::BlockArgument argument);

/// The buffers of a step function. Their lifetimes are positions in `ops`.
class Liveness : public StepBuffers {
public:
  explicit Liveness(mlir::func::FuncOp step);

  /// A communication uses a buffer from op `from` until op `until`.
  struct Hold {
    int64_t buffer, from, until;
  };

  /// Returns the lifetimes if micro-batches run one after another.
  std::vector<cost::Buffer> inOneLine() const;

  mlir::func::FuncOp step;
  /// The lifetimes of buffers ignore `holds`.
  std::vector<cost::Buffer> buffers;
  std::vector<mlir::Value> values; ///< By buffer; null for a workspace.
  /// By buffer, the ops that access it.
  std::vector<llvm::SmallVector<int64_t>> touches;
  std::vector<Hold> holds;
  /// Buffers of messages that are received in the loop.
  llvm::DenseSet<int64_t> received;
  int64_t loopBegin = INT64_MAX, loopEnd = -1;

  /// Adds the buffer of `value`, or a workspace if `value` is null. Returns the
  /// id of the buffer.
  int64_t add(mlir::Value value, int64_t bytes, cost::MemoryCategory category,
              int64_t first, int64_t last);
  int64_t end() const { return ops.size(); }
  std::pair<Phase, int64_t> runOf(int64_t at) const { return runs[at]; }

private:
  std::vector<std::pair<Phase, int64_t>> runs; ///< For each op.
  llvm::DenseMap<mlir::Value, int64_t> bufferOf;
  /// The positions at which the buffers of the step's results are released, by
  /// the value that owns the buffer. A buffer whose contents are copied to an
  /// argument is needed until the last read of the argument's old value.
  llvm::DenseMap<mlir::Value, int64_t> returned;
  LastAccesses communicated;
  /// The number of holds with known ends, which precede the other holds.
  size_t numEnded = 0;
  /// By op, the results that are copied to arguments after the op.
  llvm::DenseMap<int64_t,
                 llvm::SmallVector<std::pair<mlir::Value, mlir::Value>>>
      copies;

  void addArguments();
  int64_t firstReader(mlir::BlockArgument argument) const;
  int64_t firstOfPhase(int64_t at) const;
  void findCopies();
  void copyNewValues(int64_t at);
  void place(mlir::Operation *op, int64_t at);
  mlir::Value reusedValue(mlir::OpResult result) const;
  void touch(mlir::Operation *op, int64_t at);
  void waitFor(llvm::ArrayRef<int64_t> reads, llvm::ArrayRef<int64_t> writes,
               int64_t at);
};

} // namespace dpc
