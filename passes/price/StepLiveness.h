//===- StepLiveness.h - Which buffers a step needs when ---------*- C++ -*-===//
//
// Private to passes/price: see StepEstimate.h for the rules.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STEPLIVENESS_H
#define DPC_PASSES_PRICE_STEPLIVENESS_H

#include "ir/Lifetimes.h"
#include "ir/StepBuffers.h"
#include "passes/price/StepEstimate.h"

namespace dpc {

/// The buffers of a step function with their lifetimes, in steps of `ops`.
class Liveness : public StepBuffers {
public:
  explicit Liveness(mlir::func::FuncOp step);

  /// A communication that has a buffer from op `from` until op `until`.
  struct Hold {
    int64_t buffer, from, until;
  };

  /// Lifetimes where one micro-batch follows the other.
  std::vector<cost::Buffer> inOneLine() const;

  mlir::func::FuncOp step;
  /// Without what communication under way holds.
  std::vector<cost::Buffer> buffers;
  std::vector<mlir::Value> values; ///< By buffer; null: a workspace.
  std::vector<llvm::SmallVector<int64_t>> touches; ///< Ops, by buffer.
  std::vector<Hold> holds;
  llvm::DenseSet<int64_t> received; ///< Buffers of messages in the loop.
  int64_t loopBegin = INT64_MAX, loopEnd = -1;

  int64_t end() const { return ops.size(); }
  /// Phase and chunk of an op.
  std::pair<Phase, int64_t> runOf(int64_t at) const { return runs[at]; }

private:
  std::vector<std::pair<Phase, int64_t>> runs; ///< By op.
  llvm::DenseMap<mlir::Value, int64_t> bufferOf;
  LastAccesses communicated;
  size_t held = 0; ///< Holds at the begin of `holds` whose end is known.
  /// Behind an op: results that replace arguments.
  llvm::DenseMap<int64_t,
                 llvm::SmallVector<std::pair<mlir::Value, mlir::Value>>>
      copies;

  int64_t add(mlir::Value value, cost::MemoryCategory category, int64_t first);
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

#endif // DPC_PASSES_PRICE_STEPLIVENESS_H
