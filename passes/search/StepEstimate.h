//===- StepEstimate.h - What the program of one rank costs ------*- C++ -*-===//
//
// Two estimates from `@step` (local altitude, kernels formed):
//
// Time: a simulation of the two queues of a rank. A computation starts when the
// one before it has ended and every collective whose results it reads has; a
// collective when the one before it and all computations before it have. With M
// micro-batches the forward and backward phases count M times.
//
// Memory: which buffers are live at each op. A value has a buffer unless
//   * it is a reshape or marked `dpc.view` (part of its operand's buffer);
//   * it is an updated parameter or state (the argument's buffer);
//   * it is an all_reduce whose operand nobody reads later (that buffer);
// accumulated values live from setup on; buffers of a collective stay until a
// computation has waited for it. Code generation lays out its arena from its
// instructions, by other code: the two must agree (tested).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SEARCH_STEPESTIMATE_H
#define DPC_PASSES_SEARCH_STEPESTIMATE_H

#include "cost-model/Cluster.h"
#include "cost-model/Memory.h"
#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Predicted time of one step of one rank.
struct StepTime {
  double seconds = 0;
  double computeSeconds = 0;
  double exposedCommunicationSeconds = 0;
  /// Sent by one rank per step, by level of the cluster.
  std::vector<double> bytesPerLevel;
};

/// Simulates `step` on `cluster`.
StepTime estimateTime(mlir::func::FuncOp step, const cost::Cluster &cluster);

/// The peak of live bytes of one rank.
cost::MemoryPeak estimateMemory(mlir::func::FuncOp step);

/// Phases of @step in the order in which they run.
enum class StepPhase { setup, forward, backward, update };
StepPhase phaseOf(mlir::Operation *op);

/// The ops of `step` without its terminator, in the order in which they run.
llvm::SmallVector<mlir::Operation *> opsInOrder(mlir::func::FuncOp step);

/// Micro-batches of a step.
int64_t microBatchesOf(mlir::func::FuncOp step);

/// True for ops whose result lies in their operand's buffer.
bool isBufferView(mlir::Operation *op);

/// True for ops that the communication queue runs.
bool isCommunication(mlir::Operation *op);

/// Follows views to the value that has the buffer.
mlir::Value bufferRoot(mlir::Value value);

} // namespace dpc

#endif // DPC_PASSES_SEARCH_STEPESTIMATE_H
